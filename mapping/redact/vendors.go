package redact

// vendors are the tokens that their beginning gives away, in whatever length:
// gitleaks wants the exact one, which changes, and of a token cut short half is
// still too much. The names are gitleaks' where it has one.
var vendors = []pattern{
	{ID: "aws-access-token", Keywords: []string{"akia", "asia"}, Regex: `\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b`},
	{ID: "anthropic-api-key", Keywords: []string{"sk-ant-"}, Regex: `\bsk-ant-[\w-]{12,}`},
	{ID: "openai-api-key", Keywords: []string{"sk-"}, Regex: `\bsk-(?:(?:proj|svcacct|admin|None|or-v1)-[\w-]{16,}|[A-Za-z0-9]{32,})`},
	{ID: "github-pat", Keywords: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"}, Regex: `\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,})`},
	{ID: "gitlab-pat", Keywords: []string{"glpat-", "gldt-", "glrt-", "glptt-", "glsoat-", "glcbt-", "glft-", "glimt-", "glagent-", "gloas-", "glffct-"}, Regex: `\bgl(?:pat|dt|rt|ptt|soat|cbt|ft|imt|agent|oas|ffct)-[\w.-]{16,}`},
	{ID: "slack-token", Keywords: []string{"xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe", "xoxc-", "xoxd-", "xapp-"}, Regex: `\b(?:xox[abcdeprs](?:\.xox[bp])?|xapp)-[\w%-]{10,}`},
	{ID: "slack-webhook-url", Keywords: []string{"hooks.slack.com"}, Regex: `hooks\.slack\.com/(?:services|workflows|triggers)/([\w/-]{20,})`},
	{ID: "discord-webhook-url", Keywords: []string{"discord"}, Regex: `discord(?:app)?\.com/api/webhooks/([\w/-]{20,})`},
	{ID: "stripe-access-token", Keywords: []string{"sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_", "sk_prod_", "rk_prod_"}, Regex: `\b(?:[sr]k_(?:live|test|prod)|whsec)_[A-Za-z0-9+/=]{10,}`},
	{ID: "gcp-api-key", Keywords: []string{"aiza"}, Regex: `\bAIza[\w-]{30,}`},
	{ID: "gcp-oauth-token", Keywords: []string{"ya29.", "gocspx-", "1//0"}, Regex: `\b(?:ya29\.[\w-]{20,}|GOCSPX-[\w-]{16,}|1//0[\w-]{30,})`},
	{ID: "npm-access-token", Keywords: []string{"npm_"}, Regex: `\bnpm_[A-Za-z0-9]{30,}`},
	{ID: "npmrc-auth", Keywords: []string{"_auth"}, Regex: `:_auth(?:Token)?\s*=\s*"?([^\s"$]{8,})`},
	{ID: "pypi-upload-token", Keywords: []string{"pypi-"}, Regex: `\bpypi-[\w-]{32,}`},
	{ID: "huggingface-access-token", Keywords: []string{"hf_"}, Regex: `\bhf_[A-Za-z0-9]{30,}`},
	{ID: "sendgrid-api-token", Keywords: []string{"sg."}, Regex: `\bSG\.[\w-]{16,}\.[\w-]{16,}`},
	{ID: "azure-sas-signature", Keywords: []string{"sig="}, Regex: `(?:[?&;]|u0026)sig=([\w%+/=-]{30,})`},
	{ID: "digitalocean-access-token", Keywords: []string{"dop_v1_", "doo_v1_", "dor_v1_"}, Regex: `\bdo[opr]_v1_[a-f0-9]{32,}`},
	{ID: "docker-access-token", Keywords: []string{"dckr_pat_", "dckr_oat_"}, Regex: `\bdckr_[op]at_[\w-]{20,}`},
	{ID: "atlassian-api-token", Keywords: []string{"atatt3", "atctt3"}, Regex: `\bAT[AC]TT3[\w=.-]{30,}`},
	{ID: "vault-token", Keywords: []string{"hvs.", "hvb.", "hvr."}, Regex: `\bhv[sbr]\.[\w-]{20,}`},
	{ID: "groq-api-key", Keywords: []string{"gsk_"}, Regex: `\bgsk_[A-Za-z0-9]{32,}`},
	{ID: "xai-api-key", Keywords: []string{"xai-"}, Regex: `\bxai-[A-Za-z0-9]{32,}`},
	{ID: "replicate-api-token", Keywords: []string{"r8_"}, Regex: `\br8_[A-Za-z0-9]{30,}`},
	{ID: "cursor-api-key", Keywords: []string{"key_"}, Regex: `\bkey_[a-f0-9]{48,}`},
	{ID: "shopify-access-token", Keywords: []string{"shpat_", "shpca_", "shppa_", "shpss_"}, Regex: `\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{24,}`},
	{ID: "telegram-bot-token", Keywords: []string{":aa"}, Regex: `\b\d{8,10}:AA[\w-]{32,}`},
	{ID: "age-secret-key", Keywords: []string{"age-secret-key-1"}, Regex: `AGE-SECRET-KEY-1[A-Z0-9]{30,}`},
	{ID: "new-relic-user-api-key", Keywords: []string{"nrak-"}, Regex: `\bNRAK-[A-Z0-9]{20,}`},
	{ID: "curl-auth-user", Keywords: []string{"curl"}, Regex: `\bcurl\b[^\n]*?\s(?:-u|--user)(?:=|\s*)\\?["']?([^\s:"'\\]*:[^\s"'\\]+)`},
	{ID: "jwt", Keywords: []string{"eyj"}, Regex: `\beyJ[\w-]{10,}\.eyJ[\w-]{10,}(?:\.[\w-]*)?`},
}
