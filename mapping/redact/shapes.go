package redact

import "strings"

// shapes are secrets that need a regular expression.
var shapes = []pattern{
	{ID: "slack-webhook-url", Keywords: []string{"hooks.slack.com"}, Regex: `hooks\.slack\.com/(?:services|workflows|triggers)/([\w/-]{20,})`},
	{ID: "discord-webhook-url", Keywords: []string{"discord"}, Regex: `discord(?:app)?\.com/api/webhooks/([\w/-]{20,})`},
	{ID: "microsoft-teams-webhook", Keywords: []string{"webhook.office.com"}, Regex: `webhook\.office\.com/webhookb2/([\w@/-]{30,})`},
	{ID: "azure-sas-signature", Keywords: []string{"sig="}, Regex: `[?&;]sig=([\w%+/=-]{30,})`},
	{ID: "url-signature", Keywords: []string{"signature="}, Regex: `(?i)[?&;](?:X-(?:Amz|Goog)-)?Signature=([\w%+/=~-]{20,})`},
	{ID: "aws-secret-access-key", Keywords: []string{"akia", "asia"}, Regex: `\b(?:AKIA|ASIA)[A-Z0-9]{12,}(?:["'\s,:|]{1,8}|\s+\d{4}-\d\d-\d\dT[\d:+Z-]+\s+)([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+]|$)`},
	{ID: "oauth-code", Keywords: []string{"code="}, Regex: `[?&]code=([\w./%~-]{24,})`, Entropy: 3.5}, // RFC 6749, section 4.1.2
	{ID: "npmrc-auth", Keywords: []string{"_auth"}, Regex: `(?:^|[^.\w])_auth(?:Token)?[ \t]*(?:=|[ \t])[ \t]*"?([^\s"$\\]{8,})`},
	{ID: "docker-auth", Keywords: []string{"auth\""}, Regex: `["']auth["']\s*:\s*["']([A-Za-z0-9+/=]{8,})`},
	{ID: "sql-password", Keywords: []string{"identified by", "password '"}, Regex: `(?i)\b(?:identified\s+by|password)\s+'([^'\n]{4,})'`},
	{ID: "smtp-auth", Keywords: []string{"auth plain"}, Regex: `(?i)\bAUTH PLAIN ([A-Za-z0-9+/=]{12,})`}, // RFC 4954
	{ID: "jwt", Keywords: []string{"eyj"}, Regex: `\beyJ[\w-]{10,}\.eyJ[\w-]{10,}(?:\.[\w-]*)?`},
	{ID: "cookie", Keywords: []string{"added cookie "}, Regex: `Added cookie [\w.-]{1,64}="([^"\n]{8,})" for domain`},  // curl -v
	{ID: "okta-token", Keywords: []string{"okta"}, Regex: `\b(?i:okta)[\w .:="'-]{0,24}\b(00[\w-]{40})\b`},             // developer.okta.com/docs/guides/create-an-api-token
	{ID: "sonar-token", Keywords: []string{"sonar"}, Regex: `(?i:sonar)[\w.:"']{0,24}\s*[=:]\s*["']?([0-9a-f]{40})\b`}, // docs.sonarsource.com
}

// An infix is a kind of token with a known middle part.
type infix struct {
	rule        string
	middle      string
	before      string // the letters before the middle
	most, least int    // how many there are
	after       string // the letters after it
	min         int    // how many there are at least
	source      string // where the form is documented
}

var infixes = []infix{
	{"discord-api-token", ".G", word, 32, 23, dotted, 30, "discord.com/developers/docs/reference#authentication"},
	{"mailchimp-key", "-us", hexes, 32, 32, digits, 1, "mailchimp.com/developer/marketing/docs/fundamentals"},
	{"telegram-bot-token", ":AA", digits, 10, 8, word, 32, "core.telegram.org/bots/api#authorizing-your-bot"},
}

func infixRules() []rule {
	var rules []rule
	for _, x := range infixes {
		accepts := func(text string, h place) bool { return text[h.start:h.end] == x.middle }
		rules = append(rules, rule{x.rule, []string{strings.ToLower(x.middle)}, accepts, func(v *view, hits []place, found func(start, end int)) {
			for _, h := range hits {
				if start, end := x.around(v.text, h); end > 0 {
					found(start, end)
				}
			}
		}})
	}
	return rules
}

// around returns the token whose middle part is at h.
func (x *infix) around(t string, h place) (start, end int) {
	for start = h.start; start > 0 && h.start-start <= x.most && strings.IndexByte(x.before, t[start-1]) >= 0; start-- {
	}
	if n := h.start - start; n < x.least || n > x.most {
		return 0, 0
	}
	for end = h.end; end < len(t) && end-h.end < longestToken && strings.IndexByte(x.after, t[end]) >= 0; end++ {
	}
	if end-h.end < x.min || start > 0 && isWordByte(t[start-1]) || !isDrawn(t[start:end]) || !strings.ContainsAny(t[start:end], digits) {
		return 0, 0
	}
	return start, end
}
