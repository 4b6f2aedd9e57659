package redact

import (
	"slices"
	"strings"
	"sync"
)

const ruleCommand = "command-password"

// A tool is a program that takes secrets on its command line.
type tool struct {
	programs string // separated by spaces
	needs    string // a word without which it takes none
	options  string // options followed by a secret: the next word, or what follows =
	joined   string // options with the secret in the same word only: mysql -pX
	users    string // options with user:password
	after    string // words before a secret: vault login X
	last     int    // how many words after the word in after, if it is not the next
	final    string // subcommands whose last word is a secret
	stdin    string // words that make it read a secret from stdin
}

var tools = []tool{
	{programs: "curl", options: "--pass --proxy-pass --oauth2-bearer --tlspassword --proxy-tlspassword -b --cookie", users: "-u --user -U --proxy-user"},
	{programs: "http https xh", users: "-a --auth"},
	{programs: "wget", options: "--password --http-password --ftp-password --proxy-password"},
	{programs: "sshpass", options: "-p", joined: "-p"},
	{programs: "mysql mysqldump mysqlimport mysqlcheck mariadb mariadb-dump", joined: "-p"},
	{programs: "mysqladmin mariadb-admin", joined: "-p", after: "password"},
	{programs: "docker podman nerdctl buildah skopeo helm oc az", needs: "login", options: "-p", stdin: "--password-stdin"},
	{programs: "docker podman kubectl", options: "--password --docker-password"},
	{programs: "redis-cli", options: "-a --pass"},
	{programs: "openssl", options: "-passin -passout -pass"},
	{programs: "openssl", needs: "enc", options: "-k -K"},
	{programs: "mongo mongosh mongodump mongorestore mongoexport mongoimport", options: "-p --password"},
	{programs: "cqlsh evil-winrm crackmapexec netexec hydra twine rdesktop snowsql", options: "-p --password"},
	{programs: "zip unzip", options: "-P", joined: "-P"},
	{programs: "7z 7za 7zz", joined: "-p"},
	{programs: "rar unrar", joined: "-hp -p"},
	{programs: "gpg gpg2", options: "--passphrase"},
	{programs: "ssh-keygen", options: "-N -P"},
	{programs: "smbclient rpcclient", users: "-U --user"},
	{programs: "ldapsearch ldapadd ldapmodify ldapdelete ldapwhoami ldappasswd", options: "-w"},
	{programs: "sqlcmd bcp ipmitool mosquitto_pub mosquitto_sub", options: "-P"},
	{programs: "htpasswd", final: "-b -bc -cb -nb -bn -bB -nbB -Bb"},
	{programs: "rabbitmqctl", after: "add_user change_password authenticate_user", last: 2},
	{programs: "vault cargo", after: "login"},
	{programs: "sudo", stdin: "-S"},
	{programs: "chpasswd", stdin: "chpasswd"},
	{programs: "gh", needs: "secret", options: "-b --body"},
	{programs: "gh", stdin: "--with-token"},
	{programs: "wrangler", stdin: "put"},
	{programs: "passwd", stdin: "--stdin"},
	{programs: "cmdkey net", joined: "/pass:"},
	{programs: "net", after: "user use", last: 2},
	{programs: "schtasks", options: "/rp"},
	{programs: "xfreerdp wfreerdp", joined: "/p:"},
	{programs: "keytool jarsigner", options: "-storepass -keypass -srcstorepass -deststorepass -srckeypass -destkeypass"},
	{programs: "gem nuget dotnet", needs: "push", options: "--key -k -ApiKey --api-key"},
	{programs: "influx", options: "-t --token"}, // docs.influxdata.com/influxdb/v2/reference/cli/influx/config/create
	{programs: "doctl", needs: "auth", options: "-t"},
	{programs: "ansible-vault", after: "encrypt_string"},
	{programs: "useradd usermod", options: "-p"},
	{programs: "sqlplus", users: "sqlplus"},
	{programs: "impacket-psexec psexec.py secretsdump.py wmiexec.py", users: "impacket-psexec"},
	{programs: "aws", after: "aws_secret_access_key aws_session_token"},
	{programs: "npm yarn pnpm", after: "npmAuthToken _authToken"},
	{programs: "nmcli", after: "password"},
	{programs: "wpa_passphrase", after: "wpa_passphrase", last: 2},
	{programs: "rocommunity rwcommunity", after: "rocommunity rwcommunity"},
	{programs: "snmp-server", after: "community"},
}

func commandWords() []string {
	var words []string
	for _, t := range tools {
		for p := range strings.FieldsSeq(t.programs) {
			if !slices.Contains(words, p) {
				words = append(words, p)
			}
		}
	}
	return append(words, `"-u`)
}

// A command is a tool with its words split.
type command struct {
	needs                                       string
	options, joined, users, after, final, stdin []string
	last                                        int
}

// commandsByProgram are the tools by the name of their program.
var commandsByProgram = sync.OnceValue(func() map[string][]*command {
	by := map[string][]*command{}
	for _, t := range tools {
		x := &command{
			needs: t.needs, last: max(1, t.last), options: strings.Fields(t.options), joined: strings.Fields(t.joined), users: strings.Fields(t.users),
			after: strings.Fields(t.after), final: strings.Fields(t.final), stdin: strings.Fields(t.stdin),
		}
		for p := range strings.FieldsSeq(t.programs) {
			by[p] = append(by[p], x)
		}
	}
	return by
})

// A commandWord is a word of a command line, without its quotes.
type commandWord struct {
	text   string
	start  int
	quoted bool
}

func (w commandWord) end() int { return w.start + len(w.text) }

const (
	longestCommand = 1 << 10
	mostPrograms   = 8 // within that many bytes; text with more is not commands
)

// commands finds secrets on command lines and in argument lists:
// ["curl", "-u", "bob:.."].
func commands(v *view, hits []place, found func(start, end int)) {
	t, byProgram := v.text, commandsByProgram()
	done := 0
	piece, programs := 0, 0
	for _, h := range hits {
		if h.start < done {
			continue
		}
		if h.start/longestCommand != piece {
			piece, programs = h.start/longestCommand, 0
		}
		if programs++; programs > mostPrograms {
			continue
		}
		if t[h.start] == '"' { // ["-u", "bob:.."]
			if h.end < len(t) && t[h.end] == '"' {
				pairs(words(v, h.start+1, h.end+within), "-u", found)
			}
			continue
		}
		of := byProgram[t[h.start:h.end]]
		longest := longestCommand
		if programs > 2 {
			longest /= 4
		}
		line := words(v, h.start, h.start+longest)
		for _, tool := range of {
			if tool.needs != "" && !slices.ContainsFunc(line, func(w commandWord) bool { return w.text == tool.needs }) {
				continue
			}
			if len(tool.stdin) > 0 {
				tool.piped(v, h.start, line, found)
			}
			tool.read(line, func(start, end int) {
				found(start, end)
				done = max(done, end)
			})
		}
	}
}

// isProgram reports whether a hit may be a program in a command line.
func isProgram(t string, h place) bool {
	return (h.end == len(t) || strings.IndexByte(" \t\n\"'", t[h.end]) >= 0) &&
		(t[h.start] == '"' || h.start == 0 || strings.IndexByte(" \t\n/\"'`|;&(=$", t[h.start-1]) >= 0)
}

// words splits a command line, up to the end of the line, a pipe, or the end of
// the string that contains the command.
func words(v *view, i, limit int) []commandWord {
	t := v.text
	limit = min(limit, len(t))
	const most = 64
	var all []commandWord
	around := byte(0) // the quote around the command
	if i > 0 && isQuote(t[i-1]) {
		around = t[i-1]
	}
	for len(all) < most {
		for i < limit && (t[i] == ' ' || t[i] == '\t') {
			i++
		}
		if i >= limit || strings.IndexByte("\n|;)]}", t[i]) >= 0 {
			break
		}
		if t[i] == '&' {
			if i++; i < limit && t[i] == '&' {
				break
			}
			continue
		}
		if t[i] == ',' { // between the elements of a list
			if i++; i < limit && t[i] == '\n' {
				i = skipAll(t, i)
			}
			continue
		}
		if t[i] == '$' && i+1 < limit && t[i+1] == '\'' {
			i++
		}
		if isQuote(t[i]) {
			end := v.closing(i, limit-i)
			all = append(all, commandWord{t[i+1 : end], i + 1, true})
			if end >= len(t) || t[end] == '\n' {
				break
			}
			i = end + 1
			continue
		}
		start := i
		for i < limit && strings.IndexByte(" \t\n|;)", t[i]) < 0 && (!isQuote(t[i]) || t[i] != around && i > start && t[i-1] == '=') {
			if isQuote(t[i]) { // --password='..'
				i = min(limit, v.closing(i, limit-i)) + 1
				continue
			}
			i++
		}
		i = min(i, limit)
		all = append(all, commandWord{t[start:i], start, false})
		if i == start || i < limit && t[i] == around && around != 0 && (i+1 >= limit || t[i+1] != ',') {
			break
		}
		if i < limit && isQuote(t[i]) && t[i] == around { // "curl", "-u"
			around = 0
			i++
		}
	}
	return all
}

// read finds the secrets among the words of a command.
func (t *command) read(line []commandWord, found func(start, end int)) {
	for i, w := range line {
		for _, o := range t.options {
			if w.text == o && i+1 < len(line) {
				next := line[i+1]
				next = next.without("pass:").without("file:")
				if !strings.HasPrefix(next.text, "-") {
					next.secret(found)
				}
			} else if rest, ok := strings.CutPrefix(w.text, o); ok && strings.HasPrefix(rest, "=") {
				commandWord{text: rest[1:], start: w.end() - len(rest) + 1}.unquoted().secret(found)
			}
		}
		for _, o := range t.joined {
			if rest, ok := strings.CutPrefix(w.text, o); ok && len(rest) >= 4 {
				commandWord{text: rest, start: w.start + len(o)}.secret(found)
			} else if rest == "" && ok && i+1 < len(line) && line[i+1].quoted && line[i+1].start == w.end()+1 { // -p'my secret'
				line[i+1].secret(found)
			}
		}
		if slices.Contains(t.after, w.text) {
			if n := i + t.last; n < len(line) && !strings.HasPrefix(line[n].text, "-") && isStrong(line[n].text) {
				line[n].secret(found)
			}
		}
	}
	if slices.ContainsFunc(line, func(w commandWord) bool { return slices.Contains(t.final, w.text) }) {
		line[len(line)-1].secret(found)
	}
	for _, u := range t.users {
		pairs(line, u, found)
	}
}

// pairs finds the password in the word after an option, or joined to it:
// user:password, user%password or user/password.
func pairs(line []commandWord, option string, found func(start, end int)) {
	for i, w := range line {
		next := w
		switch rest, ok := strings.CutPrefix(w.text, option); {
		case ok && rest == "" && i+1 < len(line), !ok && len(option) == 2 && isCluster(w.text, option[1]) && i+1 < len(line):
			next = line[i+1]
		case ok && rest != "" && (len(option) == 2 || rest[0] == '='):
			n := len(option) + len(rest) - len(strings.TrimPrefix(rest, "="))
			next = commandWord{text: w.text[n:], start: w.start + n}.unquoted()
		default:
			continue
		}
		if n := strings.IndexAny(next.text, ":%/"); n >= 0 && !strings.Contains(next.text, "://") {
			pass := commandWord{text: next.text[n+1:], start: next.start + n + 1}
			if sep := next.text[n]; sep == '/' || strings.HasPrefix(option, "impacket") {
				user, _, _ := strings.Cut(pass.text, "@")
				if k := strings.LastIndexByte(user, ':'); k >= 0 {
					user, pass.start = user[k+1:], pass.start+k+1
				}
				pass.text = user
			}
			if !isDigits(pass.text) { // docker run -u 1000:1000
				pass.secret(found)
			}
		}
	}
}

// isCluster reports whether a word is a cluster of short options that ends in c:
// -sSu.
func isCluster(w string, c byte) bool {
	return len(w) > 2 && len(w) < 8 && w[0] == '-' && w[1] != '-' && w[len(w)-1] == c
}

func (w commandWord) without(prefix string) commandWord {
	if rest, ok := strings.CutPrefix(w.text, prefix); ok {
		return commandWord{text: rest, start: w.start + len(prefix)}
	}
	return w
}

func (w commandWord) unquoted() commandWord {
	if len(w.text) > 1 && isQuote(w.text[0]) {
		return commandWord{text: strings.TrimRight(w.text[1:], w.text[:1]), start: w.start + 1}
	}
	return w
}

// secret reports a word, unless it is a placeholder.
func (w commandWord) secret(found func(start, end int)) {
	if len(w.text) >= 3 && !placeholder(w.text) && !plainWords[strings.ToLower(w.text)] && !isEnv(w.text) && !strings.Contains(w.text, "$(") && !hasSuffix(w.text, files...) {
		found(w.start, w.end())
	}
}

// piped finds the secret that a program reads from stdin: echo .. | sudo -S,
// sudo -S <<< "..".
func (t *command) piped(v *view, start int, line []commandWord, found func(start, end int)) {
	reads := false
	for i, w := range line {
		reads = reads || slices.Contains(t.stdin, w.text)
		if reads && w.text == "<<<" && i+1 < len(line) {
			line[i+1].password().secret(found)
			return
		}
	}
	if !reads {
		return
	}
	from := max(0, start-within)
	from += strings.LastIndexByte(v.text[from:start], '\n') + 1
	before := v.text[from:start]
	for _, echo := range []string{"echo ", "printf "} {
		n := strings.LastIndex(before, echo)
		if n < 0 || !strings.Contains(before[n:], "|") {
			continue
		}
		if ws := words(v, from+n, start); len(ws) > 1 {
			ws[len(ws)-1].password().secret(found)
		}
	}
}

// password drops the user from bob:password.
func (w commandWord) password() commandWord {
	if n := strings.IndexByte(w.text, ':'); n >= 0 {
		return commandWord{text: w.text[n+1:], start: w.start + n + 1}
	}
	if !strings.ContainsAny(w.text, "0123456789") {
		w.text = ""
	}
	return w
}
