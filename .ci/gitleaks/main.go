// Gitleaks writes mapping/redact/gitleaks.json, the rules by which captured
// content is redacted, from the gitleaks module that go.mod names.
//
//	cd .ci/gitleaks && go get github.com/zricethezav/gitleaks/v8@latest && go run .
//
// The rules are data so that spantee has none of the modules that gitleaks
// needs. With -check it only tells whether the file is what it would write.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/zricethezav/gitleaks/v8/config"
)

const file = "../../mapping/redact/gitleaks.json"

// ours are the rules that mapping/redact has its own of: for text that is no
// file in a repository, that may be cut short, and that must still be readable
// code afterwards; or because theirs finds only how a key begins.
var ours = map[string]bool{
	"generic-api-key": true, "private-key": true, "curl-auth-header": true, "hashicorp-tf-password": true, "kubernetes-secret-yaml": true,
	"aws-amazon-bedrock-api-key-short-lived": true,
}

type rule struct {
	ID       string   `json:"id"`
	Regex    string   `json:"regex"`
	Group    int      `json:"group,omitempty" toml:"secretGroup"`
	Entropy  float64  `json:"entropy,omitempty"`
	Keywords []string `json:"keywords"`
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("gitleaks: ")
	check := flag.Bool("check", false, "only compare")
	flag.Parse()

	var in struct{ Rules []rule }
	must(toml.Unmarshal([]byte(config.DefaultConfig), &in))
	type module struct{ Path, Version, Dir string }
	var m module
	listed, err := exec.Command("go", "list", "-m", "-json", "github.com/zricethezav/gitleaks/v8").Output()
	must(err)
	must(json.Unmarshal(listed, &m))
	license, err := os.ReadFile(filepath.Join(m.Dir, "LICENSE"))
	must(err)

	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	kept := []rule{}
	for _, r := range in.Rules {
		if r.Regex != "" && !ours[r.ID] { // one is of paths alone
			kept = append(kept, r)
		}
	}
	must(e.Encode(struct {
		Source  string   `json:"source"`
		License []string `json:"license"`
		Rules   []rule   `json:"rules"`
	}{m.Path + " " + m.Version, strings.Split(strings.TrimSpace(string(license)), "\n"), kept}))

	if *check {
		there, err := os.ReadFile(file)
		must(err)
		if !bytes.Equal(there, out.Bytes()) {
			log.Fatalf("%s is not what %s %s makes of it", file, m.Path, m.Version)
		}
		return
	}
	must(os.WriteFile(file, out.Bytes(), 0o644))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
