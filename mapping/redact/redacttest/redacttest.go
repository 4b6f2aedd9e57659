// Package redacttest makes up secrets for tests. They are put together at run
// time, so that no scanner takes this repository for a leak.
package redacttest

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
)

// A Secret is a text with something in it that must not get out.
type Secret struct {
	Name  string
	Text  string   // as it would stand in a file, a command or an answer
	Parts []string // each of which gives the secret away
}

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits = "0123456789"
	hexes  = "0123456789abcdef"
	alnum  = lower + upper + digits
	word   = alnum + "_-"
)

// A maker draws the letters of secrets: always the same ones.
type maker struct{ *rand.Rand }

func (m maker) of(letters string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[m.IntN(len(letters))]
	}
	b[0], b[n-1] = letters[m.IntN(min(26, len(letters)))], letters[m.IntN(min(26, len(letters)))]
	if letters != upper && letters != lower && n > 4 { // whoever makes keys puts a digit in
		b[n/2], b[n/3] = digits[m.IntN(10)], digits[m.IntN(10)]
	}
	return string(b)
}

func (m maker) base64(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(m.IntN(256))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// pem is a private key of a kind, which has the lines it should have.
func (m maker) pem(kind string, bytes int) (text string, lines []string) {
	body := m.base64(bytes)
	for len(body) > 64 {
		lines, body = append(lines, body[:64]), body[64:]
	}
	lines = append(lines, body)
	kind = strings.TrimSpace(kind + " PRIVATE" + " KEY")
	return "-----BEGIN " + kind + "-----\n" + strings.Join(lines, "\n") + "\n-----END " + kind + "-----\n", lines
}

// Tokens are secrets that are told by what they look like.
func Tokens() []Secret {
	m := maker{rand.New(rand.NewPCG(4, 2))}
	var all []Secret
	add := func(name, token string) {
		all = append(all, Secret{Name: name, Text: "the value is " + token + "\nand so on", Parts: []string{token}})
	}
	jwt := func() string {
		return "ey" + "J" + m.of(alnum, 34) + ".ey" + "J" + m.of(alnum, 60) + "." + m.of(word, 43)
	}
	add("aws access key", "AK"+"IA"+m.of(upper+"234567", 16))
	add("aws session key", "AS"+"IA"+m.of(upper+"234567", 16))
	add("gcp api key", "AI"+"za"+m.of(word, 35))
	add("gcp oauth token", "ya"+"29."+m.of(word, 80))
	add("gcp client secret", "GOC"+"SPX-"+m.of(word, 28))
	add("google refresh token", "1/"+"/0"+m.of(word, 60))
	for _, p := range []string{"p", "o", "u", "s", "r"} {
		add("github "+p, "gh"+p+"_"+m.of(alnum, 36))
	}
	add("github fine-grained", "github"+"_pat_"+m.of(alnum, 22)+"_"+m.of(alnum, 59))
	for _, p := range []string{"pat", "dt", "rt", "ptt", "soat", "ft"} {
		add("gitlab "+p, "gl"+p+"-"+m.of(word, 20))
	}
	for _, p := range []string{"xoxb", "xoxp", "xoxa", "xoxr", "xoxs"} {
		add("slack "+p, p+"-"+m.of(digits, 12)+"-"+m.of(digits, 12)+"-"+m.of(alnum, 24))
	}
	add("slack app", "xa"+"pp-1-"+m.of(upper, 11)+"-"+m.of(digits, 13)+"-"+m.of(hexes, 64))
	add("slack webhook", "https://hooks.slack"+".com/services/T"+m.of(upper, 8)+"/B"+m.of(upper, 8)+"/"+m.of(alnum, 24))
	for _, p := range []string{"sk_live", "sk_test", "rk_live", "rk_test"} {
		add("stripe "+p, p+"_"+m.of(alnum, 24))
	}
	add("stripe webhook", "wh"+"sec_"+m.of(alnum, 32))
	add("openai project", "sk-"+"proj-"+m.of(word, 74)+"T3Blbk"+"FJ"+m.of(word, 74))
	add("openai short", "sk-"+"proj-"+m.of(word, 48))
	add("openai legacy", "sk-"+m.of(alnum, 20)+"T3Blbk"+"FJ"+m.of(alnum, 20))
	add("openai service", "sk-"+"svcacct-"+m.of(word, 60))
	add("anthropic", "sk-"+"ant-api03-"+m.of(word, 93)+"AA")
	add("anthropic short", "sk-"+"ant-api03-"+m.of(word, 40))
	add("anthropic admin", "sk-"+"ant-admin01-"+m.of(word, 93)+"AA")
	add("openrouter", "sk-"+"or-v1-"+m.of(hexes, 64))
	add("cursor", "key"+"_"+m.of(hexes, 64))
	add("groq", "gs"+"k_"+m.of(alnum, 52))
	add("xai", "xa"+"i-"+m.of(alnum, 80))
	add("perplexity", "pp"+"lx-"+m.of(alnum, 48))
	add("replicate", "r8"+"_"+m.of(alnum, 37))
	add("hugging face", "hf"+"_"+m.of(lower+upper, 34))
	add("npm", "np"+"m_"+m.of(alnum, 36))
	add("pypi", "py"+"pi-AgEIcHlwaS5vcmc"+m.of(word, 70))
	add("rubygems", "ruby"+"gems_"+m.of(hexes, 48))
	add("docker", "dckr"+"_pat_"+m.of(word, 27))
	add("digitalocean", "dop"+"_v1_"+m.of(hexes, 64))
	add("sendgrid", "SG"+"."+m.of(word, 22)+"."+m.of(word, 43))
	add("shopify", "shp"+"at_"+m.of(hexes, 32))
	add("atlassian", "ATA"+"TT3xFfGF0"+m.of(word, 180))
	add("linear", "lin"+"_api_"+m.of(alnum, 40))
	add("vault", "hv"+"s."+m.of(word, 95))
	add("terraform cloud", m.of(alnum, 14)+".atlas"+"v1."+m.of(word, 65))
	add("telegram", m.of(digits, 10)+":A"+"A"+m.of(word, 33))
	add("age", "AGE-SECRET"+"-KEY-1"+m.of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58))
	add("azure client secret", m.of(alnum, 3)+"8Q"+"~"+m.of(alnum, 34))
	add("grafana", "gl"+"sa_"+m.of(alnum, 32)+"_"+m.of(hexes, 8))
	add("notion", "ntn"+"_"+m.of(digits, 11)+m.of(alnum, 35))
	add("databricks", "da"+"pi"+m.of(hexes, 32))
	add("new relic", "NR"+"AK-"+m.of(upper+digits, 27))
	add("pulumi", "pu"+"l-"+m.of(hexes, 40))
	add("square", "sq0"+"atp-"+m.of(word, 22))
	add("bedrock", "bedrock"+"-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t"+m.of(alnum, 80))
	add("longer than it was", "dp.p"+"t."+m.of(alnum, 60))
	add("teams webhook", "https://shop.webhook.office"+".com/webhookb2/"+m.of(hexes, 8)+"-"+m.of(hexes, 4)+"-"+m.of(hexes, 4)+"-"+m.of(hexes, 4)+"-"+m.of(hexes, 12)+"@x/IncomingWebhook/"+m.of(hexes, 32))
	add("jwt", jwt())
	add("bearer", "Bearer "+m.of(word, 40))
	for i := range all { // of these the word before is none
		all[i].Parts[0] = strings.TrimPrefix(all[i].Parts[0], "Bearer ")
		if strings.HasPrefix(all[i].Parts[0], "https://") { // nor are host and path
			all[i].Parts[0] = all[i].Parts[0][strings.LastIndex(all[i].Parts[0], "/")+1:]
		}
	}
	for _, kind := range []string{"", "RSA", "EC", "DSA", "OPENSSH", "ENCRYPTED"} {
		text, lines := m.pem(kind, 300+m.IntN(800))
		all = append(all,
			Secret{Name: "pem " + kind, Text: "cat key\n" + text + "done", Parts: lines},
			Secret{Name: "pem on a line " + kind, Text: `{"k":"` + strings.ReplaceAll(text, "\n", `\n`) + `"}`, Parts: lines},
			Secret{Name: "pem cut short " + kind, Text: text[:len(text)*2/3], Parts: lines[:len(lines)*2/3]})
	}
	text, lines := m.pem("RSA", 600)
	_, tail, _ := strings.Cut(text, lines[3]+"\n")
	var numbered, added strings.Builder
	for i, l := range strings.Split(strings.TrimSpace(text), "\n") {
		fmt.Fprintf(&numbered, "%6d|%s\n", i+1, l)
		added.WriteString("+" + l + "\n")
	}
	all = append(all,
		Secret{Name: "end of a pem", Text: "tail key\n" + tail, Parts: lines[4:]},
		Secret{Name: "pem with line numbers", Text: numbered.String(), Parts: lines},
		Secret{Name: "pem in a diff", Text: added.String(), Parts: lines})
	return all
}

// Assigned are secrets that are told by the name before them.
func Assigned() []Secret {
	m := maker{rand.New(rand.NewPCG(2, 4))}
	var all []Secret
	add := func(format string, secret string) {
		all = append(all, Secret{Name: strings.TrimSpace(format), Text: "# config\n" + fmt.Sprintf(format, secret) + "\nend", Parts: []string{secret}})
	}
	long := func() string { return m.of(alnum, 32) }
	add("AWS_SECRET_ACCESS_KEY=%s", m.of(alnum+"/+", 40))
	add("aws_secret_access_key = %s", m.of(alnum, 40))
	add(`"SecretAccessKey": "%s",`, m.of(alnum, 40))
	add("export GITHUB_TOKEN=%s", long())
	add("DB_PASSWORD=%s", "correcthorse")
	add("DATABASE_PASSWORD='%s'", "tr0ub4dor&3")
	add("POSTGRES_PASSWORD: %s", "s3cr3t-pg-pass")
	add("  password: %s", "hunter2x")
	add("password: %s", "secret123")
	add("DB_PASSWORD=%s", "example-but-real")
	add("  password: %s", "correcthorsebattery")
	add("password=%s", "Pass1234")
	add("secret: %s", "abc123def")
	add("GET /v1/items?page=2&token=%s&sort=asc", "abc123def")
	add("machine git.example.com login dev password %s", "netrc-pw1")
	add("sshpass -p '%s' ssh root@host", "r00tpass")
	add("mysql -u root -p%s shop", "my5ecret")
	add("docker login -u dev -p %s registry.example.com", "d0ckerpw")
	add("redis-cli -h cache -a %s ping", "r3dispw1")
	add("AK"+"IA"+"ABCDEFGHIJKLMNOP,%s", m.of(alnum, 40))
	add(`password = "%s"`, "hunter2")
	add(`"password":"%s"`, "Tr0ub4dor")
	add(`{\"password\": \"%s\"}`, "Zx81-spectrum")
	add("MYSQL_PWD=%s", "rootpw")
	add("SECRET_KEY=%s", "django-insecure-"+m.of(alnum, 30))
	add("SECRET_KEY_BASE=%s", m.of(hexes, 128))
	add(`client_secret: "%s"`, long())
	add(`clientSecret: '%s',`, long())
	add("api_key=%s", long())
	add("apiKey: '%s'", long())
	add("API_KEY=%s", m.of(hexes, 32))
	add("STRIPE_API_KEY_TEST=%s", m.of(alnum, 24))
	add("private_key = '%s'", m.of(hexes, 64))
	add("AccountName=shop;AccountKey=%s;EndpointSuffix=core.windows.net", m.base64(64))
	add("Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=root;SharedAccessKey=%s", m.base64(32))
	add("Server=db;User Id=sa;Password=%s;Encrypt=yes", "P4ssw0rd!x")
	add("https://shop.blob.core.windows.net/c?sv=2024&sig=%s", m.of(alnum, 43)+"%3D")
	add("redis-cli --password %s", "r3dis-pw")
	add("mysql --password=%s -u root", "letmein")
	add("tool --api-key=%s", long())
	add("curl -H 'Authorization: Bearer %s' https://api.test", long())
	add(`curl -H "Authorization: Basic %s" https://api.test`, m.base64(24))
	add(`curl -H "Authorization: token %s" https://api.test`, m.of(hexes, 40))
	add(`curl -H "X-Api-Key: %s" https://api.test`, m.of(alnum, 20))
	add(`curl -u "admin:%s" https://api.test`, "s3same-open")
	add("Authorization: Bearer %s", long())
	add(`"Authorization": "Bearer %s"`, long())
	add("Cookie: session=%s; theme=dark", long())
	add("Set-Cookie: sid=%s; Path=/; HttpOnly", long())
	add("X-Auth-Token: %s", long())
	add("postgres://shop:%s@db.internal:5432/shop", "pa55word")
	add("https://user:%s@git.example.com/x.git", "p%40ss-w0rd")
	add("redis://:%s@cache:6379/0", "c4che-pass")
	add("amqp://guest:%s@mq", "rabb1t@home")
	add("git clone https://%s@git.example.com/x.git", m.of(alnum, 40))
	add("//registry.example.com/:_authToken=%s", long())
	add("<password>%s</password>", "m4ven-pw")
	add("os.Setenv(\"DB_PASSWORD\", \"%s\")", "g0-setenv-pw")
	add("password: str = \"%s\"", "typed-pw-1")
	add("define('DB_PASSWORD', '%s');", "w0rdpress!")
	add("ENV NPM_TOKEN=%s", long())
	add("JWT_SECRET=%s", "anything-at-all-9")
	add("signing_secret: %s", m.of(hexes, 32))
	add("credentials: '%s'", m.base64(30))
	add("\"access_token\": \"%s\"", long())
	add("refresh_token=%s&grant_type=refresh", long())
	add("GF_SECURITY_ADMIN_PASSWORD: \"%s\"", "graf4na")
	add(`{"auths":{"registry.example.com":{"auth": "%s"}}}`, m.base64(20))
	add("    client-key-data: %s", base64.StdEncoding.EncodeToString([]byte("-----BEGIN "+"RSA PRIVATE KEY-----\n"+m.base64(90))))
	add("curl -sSu bob:%s https://api.test", "0penSesame")
	add("mysql -u root -p'%s' shop", "my 5ecret")
	add("CREATE USER bob IDENTIFIED BY '%s';", "sq1-secret")
	add("https://bucket.s3.amazonaws.com/o?X-Amz-Date=20260101T000000Z&X-Amz-Signature=%s", m.of(hexes, 64))
	add("NOTION=%s", "nt"+"n_"+m.of(alnum, 46))
	return all
}

// All are both.
func All() []Secret { return append(Tokens(), Assigned()...) }

// Harmless are texts that a redactor has to leave alone.
func Harmless() []string {
	m := maker{rand.New(rand.NewPCG(1, 1))}
	uuid := m.of(hexes, 8) + "-" + m.of(hexes, 4) + "-4" + m.of(hexes, 3) + "-a" + m.of(hexes, 3) + "-" + m.of(hexes, 12)
	return []string{
		"commit " + m.of(hexes, 40) + "\nindex " + m.of(hexes, 7) + ".." + m.of(hexes, 7) + " 100644",
		"sha256:" + m.of(hexes, 64), "md5 " + m.of(hexes, 32), uuid, `{"id":"` + uuid + `"}`,
		"golang.org/x/net v0.60.0 h1:" + m.base64(32), `"integrity": "sha512-` + m.base64(64) + `"`,
		"data:image/png;base64," + m.base64(6000), `{"image":"` + m.base64(3000) + `"}`,
		"token = next()", "token := lexer.Next()", "tok, err := p.token(), error(nil)", "for token in tokens:", "if token == nil {",
		"var token string", "token: string;", "password: string", "private password: string | null", "Password string `json:\"password\"`",
		"password = getpass.getpass()", "password=password,", "secret = os.environ['SECRET']", "apiKey: process.env.API_KEY,",
		"API_KEY=$API_KEY", "export TOKEN=${TOKEN:-}", `TOKEN="$(cat token.txt)"`, "--token string   the token to use", "--password <password>",
		"Authorization: Bearer $TOKEN", "Authorization: Bearer <token>", "headers: { Authorization: `Bearer ${token}` }",
		"password: string\n", "password: passwordSchema\n", "  token: tokens.next1\n", "password: user.password2\n", "mysql -u root -p shop", "redis-cli -h host ping",
		"docker login -u dev --password-stdin", "login and password are needed", "password: {{ .Values.password }}", "password: ${{ secrets.DB_PASSWORD }}", `"password": "********"`, "api_key = YOUR_API_KEY",
		"fetch(url, { credentials: 'include' })", "credentials: same-origin", `<input type="password" name="password">`, "primary_key: true",
		"key: value", "keys := maps.Keys(m)", "const cacheKey = `user:${id}`", "foreign_key = 'user_id'", "for key, value := range m {",
		"--- PASS: TestTokens/ipv4-and-more (0.00s)", "ok  \tgithub.com/x/y\t0.012s", "PASS", "pass := 0", "max_tokens: 4096", "next_token: abc123",
		"s == \"-----BEGIN RSA PRIVATE" + " KEY-----\" && generateAndWriteKey(s) || s == \"-----END RSA PRIVATE" + " KEY-----\"", "postgres://$USER:$PASS@host/db", "https://example.com/a:b@c", "ssh://git@github.com/x/y",
		"The password must have eight characters.", "Enter password: ", "the token is cut in two", "export PWD=/home/dev", "secretName: shop-tls",
		"token: \"identifier\"", "\"password\": \"Password\"", "tokenType: \"bearer\"", "cookie := r.Cookie(\"sid\")", "document.cookie", "sk-spinner-container sk-circle",
		"npm_config_loglevel=warn", "hash := sha256.Sum256(key)", "[redacted:jwt]", "password=[redacted:assignment]",
	}
}
