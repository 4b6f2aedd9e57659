package redact

import "strings"

// HarmlessName tells whether a short text such as the name of a tool, an id or
// a status can be shown: no rule takes it for a secret, and it does not look
// like a random token. The ids that agents make up pass, and so do UUIDs.
func (r *Redactor) HarmlessName(s string) bool {
	const longest = 256
	if s == "" {
		return true
	}
	if len(s) > longest {
		return false
	}
	for part := range strings.FieldsFuncSeq(s, isNameBreak) {
		if !isHarmlessWord(part) {
			return false
		}
	}
	return len(r.Find(s)) == 0
}

func isNameBreak(c rune) bool { return strings.ContainsRune(" \t\n\r/:,;()[]{}<>|\"'`", c) }

// idPrefixes are how the ids begin that agents and the services behind them
// give to calls, messages and requests. They are random and no secrets.
var idPrefixes = []string{
	"toolu_", "call_", "call-", "fc_", "fc-", "tool_", "tool-", "msg_", "msg-", "req_", "req-", "resp_", "rs_", "run_", "run-", "thread_", "item_",
	"chatcmpl-", "chatcmpl_", "gen-", "ses_", "session_", "session-", "task_", "task-", "agent_", "agent-", "prt_", "part_", "turn_", "turn-",
	"step_", "event_", "evt_", "trace-", "ctc_", "ws_", "srvtoolu_", "functions.",
}

// isHarmlessWord tells whether a word is an id of a known form, or no random
// token.
func isHarmlessWord(s string) bool {
	const longestID = 96
	for _, p := range idPrefixes {
		if rest, ok := strings.CutPrefix(s, p); ok && len(rest) <= longestID && strings.Trim(rest, word+".|~") == "" {
			return true
		}
	}
	if isUUID(s) || len(s) < 16 {
		return true
	}
	for part := range strings.FieldsFuncSeq(s, func(c rune) bool {
		return c == '_' || c == '-' || c == '.' || c == '=' || c == '@' || c == '+' || c == '~'
	}) {
		if isUUIDPart(s) {
			return true
		}
		if len(part) >= 16 && (turnsOf(part) >= 3 || isHexRun(part) || len(part) >= 32 && isRandom(part)) {
			return false
		}
	}
	return turnsOf(s) < 6 || isVersionName(s)
}

// isUUID tells whether a text is 8-4-4-4-12 hexadecimal digits.
func isUUID(s string) bool {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return false
	}
	return strings.Trim(s, hexes+"-") == ""
}

// isUUIDPart tells whether a text begins with a UUID, and goes on with a number
// or a short word: agents count the calls of a request so.
func isUUIDPart(s string) bool {
	return len(s) > 36 && len(s) <= 36+12 && isUUID(s[:36]) && strings.IndexByte("-_.", s[36]) >= 0
}

// isHexRun tells whether a word is nothing but hexadecimal digits.
func isHexRun(s string) bool { return len(s) >= 24 && strings.Trim(s, hexes) == "" && turnsOf(s) > 0 }

// isVersionName tells whether a word is one of names and numbers of versions:
// claude-3-5-sonnet-20241022, x86_64-unknown-linux-gnu.
func isVersionName(s string) bool {
	for part := range strings.FieldsFuncSeq(s, func(c rune) bool { return c == '-' || c == '_' || c == '.' }) {
		if turnsOf(part) > 2 {
			return false
		}
	}
	return true
}
