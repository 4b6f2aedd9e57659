package viewer

import (
	"embed"
	"fmt"
	"path"
	"regexp"
	"strings"
)

//go:embed web
var web embed.FS

// asset returns a file of the page.
func asset(name string) string {
	b, err := web.ReadFile("web/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(b)
}

// bundle returns main.js with all that it imports, each module in a function of its
// own.
//
// The page's modules are written so that a few rules are enough to put them
// into one script: imports have names in braces and come first, exports are
// declarations or a list at the end, and no two modules import each other.
func bundle() string {
	importLine := regexp.MustCompile(`(?m)^import \{([^}]*)\} from "\./((?:vendor/)?([a-z]+))\.js";\n`)
	exportLine := regexp.MustCompile(`(?m)^export ((?:async )?function|const|class) ([A-Za-z0-9_]+)`)
	exportList := regexp.MustCompile(`(?m)export\{([^}]*)\};?$`)
	var b strings.Builder
	written := make(map[string]bool)
	var add func(module string)
	add = func(module string) {
		if written[module] {
			return
		}
		written[module] = true
		source := asset(module + ".js")
		for _, m := range importLine.FindAllStringSubmatch(source, -1) {
			add(m[2])
		}
		body := importLine.ReplaceAllStringFunc(source, func(line string) string {
			m := importLine.FindStringSubmatch(line)
			return fmt.Sprintf("const {%s} = module_%s;\n", strings.ReplaceAll(m[1], " as ", ": "), m[3])
		})
		var names []string
		for _, m := range exportLine.FindAllStringSubmatch(body, -1) {
			names = append(names, m[2])
		}
		body = exportLine.ReplaceAllString(body, "$1 $2")
		for _, m := range exportList.FindAllStringSubmatch(body, -1) {
			for export := range strings.SplitSeq(m[1], ",") {
				name, as, _ := strings.Cut(export, " as ")
				names = append(names, as+": "+name)
			}
		}
		body = exportList.ReplaceAllString(body, "")
		body = strings.ReplaceAll(body, "<!--", `\x3C!--`) // in a script of HTML, a comment may hide the script's end
		fmt.Fprintf(&b, "const module_%s = (() => {\n%s\nreturn { %s };\n})();\n", path.Base(module), body, strings.Join(names, ", "))
	}
	add("main")
	return b.String()
}
