package project

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// failedPackage matches the line that begins the compiler's errors of a package.
var failedPackage = regexp.MustCompile(`(?m)^# (\S+)`)

// cgoHint returns the next step if packages do not compile because cgo is off: the go command then
// omits their files that use cgo, and the compiler only reports undefined names. cgo is off without
// a C compiler, too. It returns "" if there is another cause.
func (p *Project) cgoHint(ctx context.Context, output []byte) string {
	list := func(cgo string, args ...string) string {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = p.Main
		if cgo != "" {
			cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
		}
		out, err := cmd.Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	packages := failedPackage.FindAllSubmatch(output, -1)
	if len(packages) == 0 || list("", "env", "CGO_ENABLED") != "0" {
		return ""
	}
	args := []string{"list", "-e", "-tags=" + p.Tags, "-f", "{{if .CgoFiles}}{{.ImportPath}}{{end}}"}
	for _, found := range packages {
		args = append(args, string(found[1]))
	}
	names := strings.Fields(list("1", args...))
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("\ncgo is off, which %s needs: install a C compiler and its libraries, and set CGO_ENABLED=1",
		strings.Join(names, ", "))
}
