package redact_test

import (
	"fmt"

	"github.com/spantee/spantee/mapping/redact"
)

func ExampleRedactor_Find() {
	r, err := redact.New(nil)
	if err != nil {
		panic(err)
	}
	const arguments = `{"command":"curl -u bob:falcon83 https://example.com","env":[{"name":"DB_PASSWORD","value":"lantern47"}]}`
	fmt.Println(redacted(arguments, r.Find(arguments)))
	// Output:
	// {"command":"curl -u bob:[redacted:command-password] https://example.com","env":[{"name":"DB_PASSWORD","value":"[redacted:assignment]"}]}
}

func ExampleRedactor_MaybePrefix() {
	r, err := redact.New(nil)
	if err != nil {
		panic(err)
	}
	const arrived = "The file says\nDB_PASSWORD=lanter"
	shown := len(arrived) - r.MaybePrefix(arrived)
	fmt.Printf("%q\n", arrived[:shown])
	// Output:
	// "The file says\n"
}

func ExampleRedactor_HarmlessName() {
	r, err := redact.New(nil)
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"mcp__github__create_issue", "toolu_01A09q90qw90lq917835lq9", "q8Zr2LmX7vKp4TnB"} {
		fmt.Println(r.HarmlessName(name))
	}
	// Output:
	// true
	// true
	// false
}
