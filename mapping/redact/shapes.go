package redact

// shapes are secrets that more than their beginning gives away.
var shapes = []pattern{
	{ID: "slack-webhook-url", Keywords: []string{"hooks.slack.com"}, Regex: `hooks\.slack\.com/(?:services|workflows|triggers)/([\w/-]{20,})`},
	{ID: "discord-webhook-url", Keywords: []string{"discord"}, Regex: `discord(?:app)?\.com/api/webhooks/([\w/-]{20,})`},
	{ID: "microsoft-teams-webhook", Keywords: []string{"webhook.office.com"}, Regex: `webhook\.office\.com/webhookb2/([\w@/-]{30,})`},
	{ID: "sendgrid-api-token", Keywords: []string{"sg."}, Regex: `\bSG\.[\w-]{16,}\.[\w-]{16,}`},
	{ID: "azure-sas-signature", Keywords: []string{"sig="}, Regex: `[?&;]sig=([\w%+/=-]{30,})`},
	{ID: "url-signature", Keywords: []string{"signature="}, Regex: `(?i)[?&;](?:X-(?:Amz|Goog)-)?Signature=([\w%+/=~-]{20,})`},
	{ID: "telegram-bot-token", Keywords: []string{":aa"}, Regex: `\b\d{8,10}:AA[\w-]{32,}`},
	{ID: "aws-secret-access-key", Keywords: []string{"akia", "asia"}, Regex: `\b(?:AKIA|ASIA)[A-Z0-9]{12,}(?:["'\s,:|]{1,8}|\s+\d{4}-\d\d-\d\dT[\d:+Z-]+\s+)([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+]|$)`},
	{ID: "npmrc-auth", Keywords: []string{"_auth"}, Regex: `\b_auth(?:Token)?[ \t]*(?:=|[ \t])[ \t]*"?([^\s"$\\]{8,})`},
	{ID: "docker-auth", Keywords: []string{"auth\""}, Regex: `["']auth["']\s*:\s*["']([A-Za-z0-9+/=]{8,})`},
	{ID: "sql-password", Keywords: []string{"identified by", "password '"}, Regex: `(?i)\b(?:identified\s+by|password)\s+'([^'\n]{4,})'`},
	{ID: "smtp-auth", Keywords: []string{"auth plain"}, Regex: `(?i)\bAUTH PLAIN ([A-Za-z0-9+/=]{12,})`}, // RFC 4954
	{ID: "jwt", Keywords: []string{"eyj"}, Regex: `\beyJ[\w-]{10,}\.eyJ[\w-]{10,}(?:\.[\w-]*)?`},
	{ID: "resend-api-key", Keywords: []string{"re_"}, Regex: `\bre_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}\b`},                                              // resend.com/docs/api-reference/introduction
	{ID: "launchdarkly-key", Keywords: []string{"sdk-", "api-", "mob-"}, Regex: `\b(?:sdk|api|mob)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`}, // launchdarkly.com/docs/home/account/api
	{ID: "asana-token", Keywords: []string{"1/1", "2/1"}, Regex: `\b[12]/\d{12,}(?:/\d{12,})?:[0-9a-f]{32}\b`},                                     // developers.asana.com/docs/personal-access-token
	{ID: "discord-api-token", Keywords: []string{".g"}, Regex: `\b[MNO][A-Za-z0-9_-]{23,28}\.G[\w-]{5}\.[\w-]{27,}`},                               // discord.com/developers/docs/reference#authentication
	{ID: "mailgun-key", Keywords: []string{"key-"}, Regex: `\bkey-[0-9a-f]{32}\b`},                                                                 // documentation.mailgun.com/docs/mailgun/user-manual/api-key-mgmt
	{ID: "mailchimp-key", Keywords: []string{"-us"}, Regex: `\b[0-9a-f]{32}-us\d{1,2}\b`},                                                          // mailchimp.com/developer/marketing/docs/fundamentals
	{ID: "okta-token", Keywords: []string{"okta"}, Regex: `\b(?i:okta)[\w .:="'-]{0,24}\b(00[\w-]{40})\b`},                                         // developer.okta.com/docs/guides/create-an-api-token
	{ID: "sonar-token", Keywords: []string{"sonar"}, Regex: `(?i:sonar)[\w.:"']{0,24}\s*[=:]\s*["']?([0-9a-f]{40})\b`},                             // docs.sonarsource.com
}
