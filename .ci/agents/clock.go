package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The programs that agents run are this one, by other names. Each writes when it began and
// ended into clockFile of its folder's parent, whatever environment it is given.
var programs = map[string]func(args []string) int{
	"clock": clock,
	"hook":  hook,
	"mcp":   mcp,
}

const clockFile = "clock.txt"

// program returns the program that this process is to be, nil for the kit.
func program() func([]string) int { return programs[filepath.Base(os.Args[0])] }

// note appends an event of a command: NAME begin|end TIME [EXIT].
func note(words ...any) {
	path := filepath.Join(filepath.Dir(filepath.Dir(os.Args[0])), clockFile)
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	fmt.Fprintln(file, words...)
	_ = file.Close()
}

func now() string { return fmt.Sprintf("%.6f", seconds(time.Now())) }

// clock is the command: NAME SECONDS EXIT [ignore] [children].
func clock(args []string) int {
	if len(args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: clock NAME SECONDS EXIT [ignore] [children]")
		return 2
	}
	note(args[0], "begin", now())
	for0, _ := strconv.ParseFloat(args[1], 64)
	exit, _ := strconv.Atoi(args[2])
	if slices.Contains(args[3:], "ignore") {
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	}
	if slices.Contains(args[3:], "children") {
		child := exec.CommandContext(context.Background(), "sleep", args[1])
		if child.Start() == nil {
			defer func() { _ = child.Wait() }()
		}
	}
	time.Sleep(time.Duration(for0 * float64(time.Second)))
	fmt.Println("output of", args[0])
	if exit != 0 {
		fmt.Fprintln(os.Stderr, "error of", args[0])
	}
	note(args[0], "end", now(), exit)
	return exit
}

// hook is a command that an agent runs as a user's hook: NAME SECONDS EXIT [WORDS...]. It
// prints the words.
func hook(args []string) int {
	note("hook-"+args[0], "begin", now())
	for0, _ := strconv.ParseFloat(args[1], 64)
	exit, _ := strconv.Atoi(args[2])
	time.Sleep(time.Duration(for0 * float64(time.Second)))
	if exit != 0 {
		fmt.Fprintln(os.Stderr, strings.Join(args[3:], " "))
	} else if len(args) > 3 {
		fmt.Println(strings.Join(args[3:], " "))
	}
	note("hook-"+args[0], "end", now(), exit)
	return exit
}

// mcp is a server of the Model Context Protocol on stdin and stdout. Its tools are slow, which
// succeeds, and bad, which fails.
func mcp([]string) int {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var m struct {
			ID     any    `json:"id"`
			Method string `json:"method"`
			Params struct {
				ProtocolVersion string `json:"protocolVersion"`
				Name            string `json:"name"`
				Arguments       struct {
					Seconds float64 `json:"seconds"`
				} `json:"arguments"`
			} `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		result := object{}
		switch m.Method {
		case "initialize":
			result = object{"protocolVersion": m.Params.ProtocolVersion, "capabilities": object{"tools": object{}}, "serverInfo": object{"name": "kit", "version": "1"}}
		case "tools/list":
			var tools []any
			for _, name := range []string{"slow", "bad"} {
				tools = append(tools, object{"name": name, "description": "a scripted tool", "inputSchema": object{"type": "object", "properties": object{"seconds": object{"type": "number"}}}})
			}
			result = object{"tools": tools}
		case "tools/call":
			exit := 0
			if m.Params.Name == "bad" {
				exit = 1
			}
			note(m.Params.Name, "begin", now())
			time.Sleep(time.Duration(m.Params.Arguments.Seconds * float64(time.Second)))
			note(m.Params.Name, "end", now(), exit)
			result = object{"content": []any{object{"type": "text", "text": "answer of " + m.Params.Name}}, "isError": exit != 0}
		}
		fmt.Println(jsonText(object{"jsonrpc": "2.0", "id": m.ID, "result": result}))
	}
	return 0
}

// A timed is a command, by its own clock. End is 0 if it was killed.
type timed struct {
	Name       string
	Begin, End float64
	Exit       int
}

// readClock reads what the commands of a run wrote.
func readClock(path string) ([]timed, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var commands []timed
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 3 {
			return nil, fmt.Errorf("%s: invalid line %q", path, line)
		}
		at, err := strconv.ParseFloat(words[2], 64)
		if err != nil {
			return nil, err
		}
		switch words[1] {
		case "begin":
			commands = append(commands, timed{Name: words[0], Begin: at})
		case "end":
			for i := range commands {
				if c := &commands[i]; c.Name == words[0] && c.End == 0 {
					c.End = at
					c.Exit, _ = strconv.Atoi(words[3])
					break
				}
			}
		}
	}
	return commands, nil
}
