package redact

import "strings"

// HarmlessName reports whether a name, an id or a status can be shown: no rule
// takes it for a secret, and it does not look like a random token. Words, the
// names of tools and programs, UUIDs and the ids that agents and model providers
// give to calls, messages and requests are harmless. Anything longer than 256
// bytes is not. It takes a few microseconds.
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

// KnownID reports whether a text has the form of the ids that agents make up, or is
// too short for a token. It takes no rules, and so a hundredth of the time.
func KnownID(s string) bool {
	const shortest = 16 // of tokens
	for len(s) >= shortest {
		var part string
		part, s, _ = strings.Cut(s, "\n")
		if len(part) >= shortest && !isUUID(part) && !isUUIDPart(part) && !hasIDForm(part) && !isShortID(part) {
			return false
		}
	}
	return true
}

// isShortID reports whether a text is a ULID, or up to 20 hexadecimal digits.
func isShortID(s string) bool {
	const ulid, hex = 26, 20
	return len(s) == ulid && s[0] <= '7' && strings.Trim(s, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") == "" ||
		len(s) <= hex && inHexes.all(s)
}

func isNameBreak(c rune) bool { return strings.ContainsRune(" \t\n\r/:,;()[]{}<>|\"'`", c) }

// idPrefixes are the prefixes of ids that agents and model providers give to
// calls, messages and requests. The ids are random but not secret.
var idPrefixes = []string{
	"toolu_", "call_", "call-", "fc_", "fc-", "tool_", "tool-", "msg_", "msg-", "req_", "req-", "resp_", "rs_", "run_", "run-", "thread_", "item_",
	"chatcmpl-", "chatcmpl_", "gen-", "ses_", "session_", "session-", "task_", "task-", "agent_", "agent-", "prt_", "part_", "turn_", "turn-",
	"step_", "event_", "evt_", "trace-", "ctc_", "ws_", "srvtoolu_", "functions.", "T-", "t-",
}

// hasIDForm reports whether a word begins like an agent's id.
func hasIDForm(s string) bool {
	const longest = 96
	for _, p := range idPrefixes {
		if rest, ok := strings.CutPrefix(s, p); ok && len(rest) <= longest && inIDs.all(rest) {
			return true
		}
	}
	return false
}

// isHarmlessWord reports whether a word is an id of a known form, or not random.
func isHarmlessWord(s string) bool {
	if hasIDForm(s) || isUUID(s) || isUUIDPart(s) || len(s) < 16 {
		return true
	}
	const mostRandom = 20
	random := 0 // bytes
	for part := range strings.FieldsFuncSeq(s, func(c rune) bool { return strings.ContainsRune("_-.=@+~", c) }) {
		if len(part) >= 16 && (turnsOf(part) >= 3 || isHexRun(part) || isRandom(part)) {
			return false
		}
		if turnsOf(part) >= 3 {
			random += len(part)
		}
	}
	return random < mostRandom
}

// isUUID reports whether a text is a UUID.
func isUUID(s string) bool {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return false
	}
	return hexesAndDashes.all(s)
}

// isUUIDPart reports whether a text is a UUID with a short suffix: agents number
// the calls of a request like that.
func isUUIDPart(s string) bool {
	return len(s) > 36 && len(s) <= 36+12 && isUUID(s[:36]) && strings.IndexByte("-_.", s[36]) >= 0
}

// isHexRun reports whether a word is nothing but hexadecimal digits.
func isHexRun(s string) bool { return len(s) >= 24 && inHexes.all(s) && turnsOf(s) > 0 }
