package viewer

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Open spans have content. They stay on this machine even if a server there says that they
// should go elsewhere.
func TestFeedFollowsNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("the redirect was followed")
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer elsewhere.Close()
	for _, code := range []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, code))
		for _, overGRPC := range []bool{false, true} {
			if Answers(s.URL, overGRPC, "test") {
				t.Errorf("%d: a viewer answers", code)
			}
		}
		s.Close()
	}
}
