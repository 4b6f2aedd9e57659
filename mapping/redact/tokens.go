package redact

import (
	"slices"
	"strings"
)

// Letters that tokens are made of.
const (
	hexes  = "0123456789abcdefABCDEF"
	alnum  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	digits = "0123456789"
	word   = alnum + "_-"
	dotted = word + "."
	base64 = alnum + "+/="
	urlish = dotted + "+/=%~"
)

// A token is a kind of secret with a known prefix.
type token struct {
	rule    string
	prefix  string
	min     int    // how many letters at least follow the prefix
	letters string // what they are
	source  string // where the form is documented
}

// tokenRules returns the rules for all tokens, one for each name.
func tokenRules() []rule {
	byRule := map[string][]token{}
	var names []string
	for _, t := range tokens {
		if byRule[t.rule] == nil {
			names = append(names, t.rule)
		}
		byRule[t.rule] = append(byRule[t.rule], t)
	}
	var rules []rule
	for _, name := range names {
		kinds := byRule[name]
		var keywords []string
		for _, k := range kinds {
			if p := strings.ToLower(k.prefix); !oneOf(p, keywords) {
				keywords = append(keywords, p)
			}
		}
		accepts := func(text string, h place) bool {
			return slices.ContainsFunc(kinds, func(k token) bool { return k.begins(text, h.start) })
		}
		rules = append(rules, rule{name, keywords, accepts, func(v *view, hits []place, found func(start, end int)) {
			done := 0
			for _, h := range hits {
				for _, k := range kinds {
					if h.start < done {
						break
					}
					end := k.end(v.text, h.start)
					if end == 0 {
						continue
					}
					found(h.start, end)
					done = end
					if p, ok := v.rest(h.start, end); ok {
						found(p.start, p.end)
					}
				}
			}
		}})
	}
	return rules
}

// longestToken bounds how far a token is read. It is far more than any vendor's
// tokens need.
const longestToken = 16 << 10

// begins reports whether a token may begin at start.
func (k *token) begins(text string, start int) bool {
	last := start + len(k.prefix) + k.min - 1
	const shortest = 4 // of prefixes that a text in base64 seldom has
	if len(k.prefix) < shortest && start > 1 && (text[start-1] == '-' || text[start-1] == '+') && isWordByte(text[start-2]) {
		return false
	}
	return last < len(text) && strings.HasPrefix(text[start:], k.prefix) && strings.IndexByte(k.letters, text[last]) >= 0 &&
		(start == 0 || !isWordByte(text[start-1]) || !isWordByte(k.prefix[0]))
}

// end returns where the token ends that begins at start, 0 if none does.
func (k *token) end(text string, start int) int {
	if !k.begins(text, start) {
		return 0
	}
	from := start + len(k.prefix)
	end := from
	limit := min(len(text), from+longestToken)
	for end < limit && strings.IndexByte(k.letters, text[end]) >= 0 {
		end++
	}
	for end > from && strings.IndexByte(".-%~/+", text[end-1]) >= 0 {
		end--
	}
	rest := text[from:end]
	if len(rest) < k.min || placeholder(rest) || !isDrawn(rest) {
		return 0
	}
	return wordEnd(text, end)
}

// isDrawn reports whether what follows a prefix is random. In sk-spinner-container
// it is not.
func isDrawn(rest string) bool {
	m := makeupOf(rest)
	if m.digits == 0 {
		return m.upper > 2 && m.letters-m.upper > 2 && entropy(rest) > 3
	}
	return entropy(rest) > 2.5 && (m.letters > 0 || len(rest) >= 16) && (m.joints == 0 || m.letters == 0 || turnsOf(rest) >= 3)
}

// Where the forms of tokens are documented.
const (
	github     = "docs.github.com/code-security/secret-scanning/introduction/supported-secret-scanning-patterns"
	gitleaksIs = "gitleaks.json, without its exact length"
	truffle    = "github.com/trufflesecurity/trufflehog/pkg/detectors/"
	asIssued   = "not documented: the form of the keys that the vendor issues"
)

// tokens have a minimum length instead of the exact one, because vendors change it,
// and because half a token must not be shown either. Rules have gitleaks' names if
// gitleaks has one.
var tokens = []token{
	{"aws-access-token", "AKIA", 12, alnum, "docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html"},
	{"aws-access-token", "ASIA", 12, alnum, "docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html"},
	{"anthropic-api-key", "sk-ant-", 12, word, "docs.anthropic.com/en/api/admin-api/apikeys/get-api-key"},
	{"openai-api-key", "sk-proj-", 16, word, gitleaksIs},
	{"openai-api-key", "sk-svcacct-", 16, word, gitleaksIs},
	{"openai-api-key", "sk-admin-", 16, word, gitleaksIs},
	{"openai-api-key", "sk-None-", 16, word, gitleaksIs},
	{"openai-api-key", "sk-or-v1-", 16, hexes, truffle + "openrouter"},
	{"openai-api-key", "sk-", 32, alnum, gitleaksIs},
	{"openai-api-key", "sess-", 40, alnum, asIssued},
	{"github-pat", "ghp_", 16, alnum, "github.blog/engineering/platform-security/behind-githubs-new-authentication-token-formats"},
	{"github-pat", "gho_", 16, alnum, "github.blog/engineering/platform-security/behind-githubs-new-authentication-token-formats"},
	{"github-pat", "ghu_", 16, alnum, "github.blog/engineering/platform-security/behind-githubs-new-authentication-token-formats"},
	{"github-pat", "ghs_", 16, alnum, "github.blog/engineering/platform-security/behind-githubs-new-authentication-token-formats"},
	{"github-pat", "ghr_", 16, alnum, "github.blog/engineering/platform-security/behind-githubs-new-authentication-token-formats"},
	{"github-pat", "github_pat_", 20, word, "github.blog/engineering/platform-security/behind-githubs-new-authentication-token-formats"},
	{"gitlab-pat", "glpat-", 16, dotted, "docs.gitlab.com/security/tokens/#token-prefixes"},
	{"gitlab-pat", "gldt-", 16, dotted, "docs.gitlab.com/security/tokens/#token-prefixes"},
	{"gitlab-pat", "glrt-", 16, dotted, "docs.gitlab.com/security/tokens/#token-prefixes"},
	{"gitlab-pat", "glrtr-", 16, dotted, "docs.gitlab.com/security/tokens/#token-prefixes"},
	{"gitlab-pat", "glptt-", 16, dotted, "docs.gitlab.com/security/tokens/#token-prefixes"},
	{"gitlab-pat", "glsoat-", 16, dotted, "docs.gitlab.com/security/tokens/#token-prefixes"},
	{"gitlab-pat", "glcbt-", 16, dotted, "docs.gitlab.com/security/tokens/#token-prefixes"},
	{"gitlab-pat", "glft-", 16, dotted, "docs.gitlab.com/security/tokens/#token-prefixes"},
	{"gitlab-pat", "glimt-", 16, dotted, "docs.gitlab.com/security/tokens/#token-prefixes"},
	{"gitlab-pat", "glagent-", 16, dotted, "docs.gitlab.com/security/tokens/#token-prefixes"},
	{"gitlab-pat", "gloas-", 16, dotted, "docs.gitlab.com/security/tokens/#token-prefixes"},
	{"gitlab-pat", "glffct-", 16, dotted, "docs.gitlab.com/security/tokens/#token-prefixes"},
	{"slack-token", "xoxb-", 10, word, "api.slack.com/concepts/token-types"},
	{"slack-token", "xoxp-", 10, word, "api.slack.com/concepts/token-types"},
	{"slack-token", "xoxa-", 10, word, "api.slack.com/concepts/token-types"},
	{"slack-token", "xoxr-", 10, word, "api.slack.com/concepts/token-types"},
	{"slack-token", "xoxs-", 10, word, "api.slack.com/concepts/token-types"},
	{"slack-token", "xoxc-", 10, word, "api.slack.com/concepts/token-types"},
	{"slack-token", "xoxd-", 10, word + "%", "api.slack.com/concepts/token-types"},
	{"slack-token", "xoxe-", 10, word, "api.slack.com/authentication/rotation"},
	{"slack-token", "xoxe.xoxb-", 10, word, "api.slack.com/authentication/rotation"},
	{"slack-token", "xoxe.xoxp-", 10, word, "api.slack.com/authentication/rotation"},
	{"slack-token", "xapp-", 10, word, "api.slack.com/concepts/token-types"},
	{"stripe-access-token", "sk_live_", 10, alnum, "docs.stripe.com/keys"},
	{"stripe-access-token", "sk_test_", 10, alnum, "docs.stripe.com/keys"},
	{"stripe-access-token", "rk_live_", 10, alnum, "docs.stripe.com/keys"},
	{"stripe-access-token", "rk_test_", 10, alnum, "docs.stripe.com/keys"},
	{"stripe-access-token", "sk_prod_", 10, alnum, gitleaksIs},
	{"stripe-access-token", "rk_prod_", 10, alnum, gitleaksIs},
	{"stripe-access-token", "whsec_", 10, base64, "docs.stripe.com/webhooks#verify-events"},
	{"gcp-api-key", "AIza", 30, word, "cloud.google.com/docs/authentication/api-keys"},
	{"gcp-oauth-token", "ya29.", 20, word, truffle + "googleoauth2"},
	{"gcp-oauth-token", "GOCSPX-", 16, word, github},
	{"gcp-oauth-token", "1//0", 30, word, github},
	{"npm-access-token", "npm_", 30, alnum, "github.blog/changelog/2021-09-23-npm-has-a-new-access-token-format"},
	{"pypi-upload-token", "pypi-", 32, word, "pypi.org/help/#apitoken"},
	{"huggingface-access-token", "hf_", 30, alnum, "huggingface.co/docs/hub/security-tokens"},
	{"digitalocean-access-token", "dop_v1_", 32, hexes, gitleaksIs},
	{"digitalocean-access-token", "doo_v1_", 32, hexes, gitleaksIs},
	{"digitalocean-access-token", "dor_v1_", 32, hexes, gitleaksIs},
	{"docker-access-token", "dckr_pat_", 20, word, github},
	{"docker-access-token", "dckr_oat_", 20, word, github},
	{"atlassian-api-token", "ATATT3", 30, dotted + "=", gitleaksIs},
	{"atlassian-api-token", "ATCTT3", 30, dotted + "=", github},
	{"vault-token", "hvs.", 20, word, "developer.hashicorp.com/vault/docs/concepts/tokens#token-prefixes"},
	{"vault-token", "hvb.", 20, word, "developer.hashicorp.com/vault/docs/concepts/tokens#token-prefixes"},
	{"vault-token", "hvr.", 20, word, "developer.hashicorp.com/vault/docs/concepts/tokens#token-prefixes"},
	{"groq-api-key", "gsk_", 32, alnum, truffle + "groq"},
	{"xai-api-key", "xai-", 32, alnum, truffle + "xai"},
	{"replicate-api-token", "r8_", 30, alnum, truffle + "replicate"},
	{"cursor-api-key", "key_", 48, hexes, "cursor.com/docs/cli/reference/authentication"},
	{"shopify-access-token", "shpat_", 24, hexes, gitleaksIs},
	{"shopify-access-token", "shpca_", 24, hexes, gitleaksIs},
	{"shopify-access-token", "shppa_", 24, hexes, gitleaksIs},
	{"shopify-access-token", "shpss_", 24, hexes, gitleaksIs},
	{"age-secret-key", "AGE-SECRET-KEY-1", 30, alnum, "age-encryption.org/v1"},
	{"new-relic-user-api-key", "NRAK-", 20, alnum, "docs.newrelic.com/docs/apis/intro-apis/new-relic-api-keys"},
	{"aws-amazon-bedrock-api-key-short-lived", "bedrock-api-key-", 20, base64 + "-_", "docs.aws.amazon.com/bedrock/latest/userguide/api-keys.html"},
	{"notion-api-token", "ntn_", 40, alnum, "developers.notion.com/page/changelog"},
	{"notion-api-token", "secret_", 43, alnum, truffle + "notion"},
	{"supabase-access-token", "sbp_", 40, hexes, truffle + "supabasetoken"},
	{"supabase-access-token", "sb_secret_", 20, word, "supabase.com/docs/guides/api/api-keys"},
	{"tailscale-key", "tskey-", 20, word, "tailscale.com/kb/1277/key-prefixes"},
	{"sonar-token", "squ_", 40, hexes, "docs.sonarsource.com/sonarqube-server/user-guide/managing-tokens"},
	{"sonar-token", "sqp_", 40, hexes, "docs.sonarsource.com/sonarqube-server/user-guide/managing-tokens"},
	{"sonar-token", "sqa_", 40, hexes, "docs.sonarsource.com/sonarqube-server/user-guide/managing-tokens"},
	{"figma-token", "figd_", 36, word, truffle + "figmapersonalaccesstoken/v2"},
	{"figma-token", "figu_", 36, word, github},
	{"netlify-token", "nfp_", 36, alnum, truffle + "netlify/v2"},
	{"netlify-token", "nfo_", 36, alnum, github},
	{"netlify-token", "nfc_", 36, alnum, github},
	{"netlify-token", "nfb_", 36, alnum, github},
	{"netlify-token", "nfu_", 36, alnum, github},
	{"dropbox-token", "sl.", 100, word + ".", gitleaksIs},
	{"buildkite-token", "bkua_", 36, hexes, truffle + "buildkite/v2"},
	{"circleci-token", "CCIPAT_", 40, word, truffle + "circleci/v2"},
	{"circleci-token", "CCIPRJ_", 40, word, "circleci.com/docs/managing-api-tokens"},
	{"posthog-key", "phc_", 40, word, truffle + "posthog"},
	{"posthog-key", "phx_", 40, word, "posthog.com/docs/api#personal-api-key-authentication"},
	{"sentry-org-token", "sntrys_", 60, word + "+/=", truffle + "sentryorgtoken"},
	{"sentry-user-token", "sntryu_", 60, hexes, gitleaksIs},
	{"discord-api-token", "mfa.", 80, word, github},
	{"crates-io-token", "cio", 32, alnum, "github.com/rust-lang/crates.io/src/util/token.rs"},
	{"nuget-api-key", "oy2", 43, alnum, truffle + "nugetapikey"},
	{"mapbox-api-token", "sk.eyJ", 60, dotted, truffle + "mapbox"},
	{"pinecone-api-key", "pcsk_", 50, word, asIssued},
	{"langsmith-api-key", "lsv2_pt_", 40, word, truffle + "langsmith"},
	{"langsmith-api-key", "lsv2_sk_", 40, word, truffle + "langsmith"},
	{"langsmith-api-key", "ls__", 32, alnum, asIssued},
	{"fireworks-api-key", "fw_", 22, alnum, asIssued},
	{"nvidia-api-key", "nvapi-", 50, word, truffle + "nvapi"},
	{"elevenlabs-api-key", "sk_", 48, hexes, truffle + "elevenlabs/v2"},
	{"tavily-api-key", "tvly-", 32, word, truffle + "tavily"},
	{"voyage-api-key", "pa-", 43, word, asIssued},
	{"grafana-token", "glc_", 40, base64, gitleaksIs},
	{"vercel-token", "vercel_blob_rw_", 30, word, "vercel.com/docs/vercel-blob"},
	{"vercel-token", "vcp_", 24, alnum, github},
	{"cerebras-api-key", "csk-", 40, alnum, asIssued},
	{"jina-api-key", "jina_", 40, word, asIssued},
	{"apify-token", "apify_api_", 30, alnum, truffle + "apify"},
	{"render-api-key", "rnd_", 28, alnum, asIssued},
	{"1password-service-account-token", "ops_eyJ", 100, base64 + "-_", gitleaksIs},
	{"doppler-api-token", "dp.st.", 40, dotted, "docs.doppler.com/reference/auth-token-formats"},
	{"doppler-api-token", "dp.pt.", 40, dotted, "docs.doppler.com/reference/auth-token-formats"},
	{"doppler-api-token", "dp.ct.", 40, dotted, "docs.doppler.com/reference/auth-token-formats"},
	{"doppler-api-token", "dp.sa.", 40, dotted, "docs.doppler.com/reference/auth-token-formats"},
	{"doppler-api-token", "dp.scim.", 40, dotted, "docs.doppler.com/reference/auth-token-formats"},
	{"doppler-api-token", "dp.audit.", 40, dotted, "docs.doppler.com/reference/auth-token-formats"},
	{"sourcegraph-access-token", "sgp_", 40, word, gitleaksIs},
	{"wakatime-api-key", "waka_", 32, word, asIssued},
	{"snyk-token", "snyk_uat.", 40, dotted, github},
	{"runpod-api-key", "rpa_", 30, alnum, asIssued},
	{"e2b-api-key", "e2b_", 40, hexes, asIssued},
	{"modal-token", "as-", 22, alnum, "modal.com/docs/reference/modal.config"},
	{"modal-token", "ak-", 22, alnum, "modal.com/docs/reference/modal.config"},
	{"intercom-access-token", "dG9rO", 40, base64 + "_", truffle + "intercom"},
	{"asana-token", "1/12", 40, hexes + "/:", "developers.asana.com/docs/personal-access-token"},
	{"asana-token", "2/12", 40, hexes + "/:", "developers.asana.com/docs/personal-access-token"},
	{"okta-token", "SSWS 00", 38, word, "developer.okta.com/docs/guides/create-an-api-token"},
	{"plaid-access-token", "access-production-", 30, hexes + "-", "plaid.com/docs/api/tokens"},
	{"plaid-access-token", "access-sandbox-", 30, hexes + "-", "plaid.com/docs/api/tokens"},
	{"razorpay-key", "rzp_live_", 14, alnum, truffle + "razorpay"},
	{"together-api-key", "tgp_v1_", 30, word, truffle + "togetherai"},
	{"square-access-token", "EAAAl", 55, word, gitleaksIs},
	{"square-access-token", "sq0csp-", 40, word, gitleaksIs},
	{"neon-api-key", "napi_", 60, alnum, asIssued},
	{"amazon-mws-token", "amzn.mws.", 30, hexes + "-", truffle + "awsmws"},
	{"cloudflare-api-token", "cfut_", 40, alnum, "developers.cloudflare.com/fundamentals/api/get-started/token-formats"},
	{"cloudflare-api-token", "cfat_", 40, alnum, "developers.cloudflare.com/fundamentals/api/get-started/token-formats"},
	{"cloudflare-api-token", "cfk_", 40, alnum, "developers.cloudflare.com/fundamentals/api/get-started/token-formats"},
	{"hubspot-access-token", "pat-na1-", 32, hexes + "-", "developers.hubspot.com/docs/guides/apps/private-apps/overview"},
	{"hubspot-access-token", "pat-eu1-", 32, hexes + "-", "developers.hubspot.com/docs/guides/apps/private-apps/overview"},
	{"private-key", "LS0tLS1CRUdJTiBSU0Eg", 40, base64, "RFC 7468: BEGIN RSA in base64, as in a kubeconfig"},
	{"private-key", "LS0tLS1CRUdJTiBQUklW", 40, base64, "RFC 7468: BEGIN PRIV"},
	{"private-key", "LS0tLS1CRUdJTiBFQyBQ", 40, base64, "RFC 7468: BEGIN EC P"},
	{"private-key", "LS0tLS1CRUdJTiBPUEVO", 40, base64, "RFC 7468: BEGIN OPEN"},
	{"private-key", "LS0tLS1CRUdJTiBEU0Eg", 40, base64, "RFC 7468: BEGIN DSA"},
	{"private-key", "LS0tLS1CRUdJTiBFTkNS", 40, base64, "RFC 7468: BEGIN ENCR"},
	{"resend-api-key", "re_", 32, word, "resend.com/docs/api-reference/introduction"},
	{"sendgrid-api-token", "SG.", 40, dotted, gitleaksIs},
	{"launchdarkly-key", "sdk-", 36, hexes + "-", "launchdarkly.com/docs/home/account/api"},
	{"launchdarkly-key", "api-", 36, hexes + "-", "launchdarkly.com/docs/home/account/api"},
	{"launchdarkly-key", "mob-", 36, hexes + "-", "launchdarkly.com/docs/home/account/api"},
	{"asana-token", "1/1", 45, hexes + "/:", "developers.asana.com/docs/personal-access-token"},
	{"asana-token", "2/1", 45, hexes + "/:", "developers.asana.com/docs/personal-access-token"},
	{"mailgun-key", "key-", 32, hexes, "documentation.mailgun.com/docs/mailgun/user-manual/api-key-mgmt"},
	{"airtable-personnal-access-token", "pat", 79, alnum + ".", gitleaksIs},
	{"contentful-management-token", "CFPAT-", 40, word, "contentful.com/developers/docs/references/authentication"},
	{"typeform-api-token", "tfp_", 40, dotted + "=", gitleaksIs},
	{"cloudflare-origin-ca-key", "v1.0-", 100, hexes + "-", gitleaksIs},
	{"yandex-api-key", "AQVN", 35, word, gitleaksIs},
	{"flutterwave-secret-key", "FLWSECK-", 30, alnum + "-", "developer.flutterwave.com/docs/authentication"},
	{"password-hash", "$6$", 40, dotted + "/$=", "crypt(5)"},
	{"password-hash", "$5$", 40, dotted + "/$=", "crypt(5)"},
	{"password-hash", "$1$", 22, dotted + "/$", "crypt(5)"},
	{"password-hash", "$y$", 40, dotted + "/$", "crypt(5)"},
	{"password-hash", "$2a$", 50, dotted + "/$", "crypt(5)"},
	{"password-hash", "$2b$", 50, dotted + "/$", "crypt(5)"},
	{"password-hash", "$2y$", 50, dotted + "/$", "crypt(5)"},
	{"password-hash", "$apr1$", 24, dotted + "/$", "httpd.apache.org/docs/current/misc/password_encryptions.html"},
	{"password-hash", "$argon2", 40, dotted + "/$=,+", "RFC 9106, as encoded by its reference implementation"},
	{"password-hash", "pbkdf2_sha256$", 40, dotted + "/$=+", "docs.djangoproject.com/en/stable/topics/auth/passwords"},
	{"password-hash", "{SSHA}", 24, base64, "RFC 3112"},
	{"password-hash", "{SHA}", 24, base64, "RFC 3112"},
}
