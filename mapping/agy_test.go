package mapping_test

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spantee/spantee/mapping"
)

// In a live pipe, steps end when they are printed, and a call whose first line is printed late
// has the length that its last line states. A process that waits for its first prompt does
// nothing.
func TestAgyLive(t *testing.T) {
	start := time.UnixMilli(1790931600000)
	at := start
	m, err := mapping.New(mapping.Options{Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	var spans []*tracepb.Span
	for _, line := range []struct {
		ms   int
		text string
	}{
		{-60_000, `{"event":"init","conversation_id":"c1","init":{"cwd":"/w","tools":[],"permission_mode":"default"}}`},
		{0, `{"event":"step_update","step_update":{"conversation_id":"c1","step_index":0,"state":"DONE","step_type":"user_input"}}`},
		{1900, `{"event":"step_update","step_update":{"conversation_id":"c1","step_index":1,"state":"ACTIVE","step_type":"agent_response","text_delta":"Let me "}}`},
		{2000, `{"event":"step_update","step_update":{"conversation_id":"c1","step_index":1,"state":"DONE","step_type":"agent_response","text_delta":"see.","duration_seconds":1.99}}`},
		{3500, `{"event":"step_update","step_update":{"conversation_id":"c1","step_index":2,"state":"ACTIVE","step_type":"tool","tool_name":"run_command"}}`},
		{3501, `{"event":"step_update","step_update":{"conversation_id":"c1","step_index":2,"state":"DONE","step_type":"tool","tool_name":"run_command","duration_seconds":1.3}}`},
		{5000, `{"event":"step_update","step_update":{"conversation_id":"c1","step_index":3,"state":"DONE","step_type":"agent_response","text_delta":"Done.","duration_seconds":1.4}}`},
		{5010, `{"event":"result","result":{"conversation_id":"c1","status":"SUCCESS","response":"Let me see.Done.","duration_seconds":5.0,"num_turns":1}}`},
	} {
		at = start.Add(time.Duration(line.ms) * time.Millisecond)
		spans = append(spans, decoded(t, m.Map([]byte(line.text+"\n")))...)
	}
	var got []string
	for _, s := range append(spans, decoded(t, m.Close(false))...) {
		if attr(s, "spantee.time.estimated").GetBoolValue() {
			t.Errorf("%s is a guess", s.Name)
		}
		got = append(got, times(s, start))
	}
	want := []string{
		"execute_tool run_command 2.201-3.501", "chat 0.000-2.201", "chat 3.501-5.000", "invoke_agent agy 0.000-5.010",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}
