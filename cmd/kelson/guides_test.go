package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"kelson.dev/toolchain/scaffold"
)

// A guideStep is a marked block of a guide. The marker is a comment in the line before the block:
//
//	<!-- run -->                      the commands of a console block succeed and print what the block shows
//	<!-- file: config/sample.yaml --> the block is written to the file
//
// All steps of a page run in one shell, which begins in an empty folder. A command that ends with &
// runs in the background, until the page ends; the next command waits for its output.
//
// In the output that a block shows, … stands for any text, and a word with a digit for any word;
// other lines may come between those that are shown.
type guideStep struct {
	line     int
	file     string // with content
	content  string
	commands []guideCommand
}

type guideCommand struct {
	line  int
	text  string
	shows []string
}

// TestGuides runs the marked commands of the README and the guides.
func TestGuides(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles projects")
	}
	pages, err := filepath.Glob("../../docs/guides/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../../README.md") {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if steps := guideSteps(string(data)); len(steps) > 0 {
			t.Run(filepath.Base(page), func(t *testing.T) { runGuide(t, page, steps) })
		}
	}
}

// guideSteps returns the marked blocks of a page.
func guideSteps(page string) []guideStep {
	marker := regexp.MustCompile(`^<!-- (run|file: (\S+)) -->$`)
	lines := strings.Split(page, "\n")
	var steps []guideStep
	for i := 0; i < len(lines); i++ {
		match := marker.FindStringSubmatch(lines[i])
		if match == nil || i+1 == len(lines) || !strings.HasPrefix(lines[i+1], "```") {
			continue
		}
		step := guideStep{line: i + 2, file: match[2]}
		for i += 2; i < len(lines) && lines[i] != "```"; i++ {
			step.content += lines[i] + "\n"
			text, isCommand := strings.CutPrefix(lines[i], "$ ")
			switch last := len(step.commands) - 1; {
			case isCommand:
				step.commands = append(step.commands, guideCommand{line: i + 1, text: text})
			case last >= 0 && strings.HasSuffix(step.commands[last].text, `\`):
				step.commands[last].text += "\n" + lines[i]
			case last >= 0:
				step.commands[last].shows = append(step.commands[last].shows, lines[i])
			}
		}
		steps = append(steps, step)
	}
	return steps
}

func runGuide(t *testing.T, page string, steps []guideStep) {
	dir, bin := t.TempDir(), t.TempDir()
	kelson, err := filepath.Abs(built(t, binary))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kelson", "kubectl"} {
		if err := os.Symlink(kelson, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	checkout, err := scaffold.Checkout(os.Getenv("KELSON_CHECKOUT"))
	if err != nil {
		t.Fatal(err)
	}
	caches, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache := strings.Fields(string(caches))

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", guideScript(steps))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+t.TempDir(), "KUBECONFIG=",
		"KELSON="+kelson, "KELSON_CHECKOUT="+checkout, "GOCACHE="+cache[0], "GOMODCACHE="+cache[1],
		"GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off", "GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
		"TMPDIR="+t.TempDir(), "LOGS="+t.TempDir())
	// so that background commands end with the script
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	output, err := cmd.CombinedOutput()
	parts := strings.Split(string(output), "\x1e")
	if err != nil {
		t.Fatalf("%s: %v\n%s", page, err, parts[len(parts)-1])
	}
	var commands []guideCommand
	for _, step := range steps {
		if step.file == "" {
			commands = append(commands, step.commands...)
		}
	}
	if len(parts) != len(commands)+1 {
		t.Fatalf("%s: %d of %d commands ran\n%s", page, len(parts)-1, len(commands), output)
	}
	for i, command := range commands {
		if err := shown(command.shows, parts[i+1]); err != nil {
			t.Errorf("%s:%d: $ %s: %v\nIt printed:\n%s", page, command.line, command.text, err, parts[i+1])
		}
	}
}

// guideScript returns the shell script of a page. It prints U+001E before the output of each
// command.
func guideScript(steps []guideStep) string {
	var b strings.Builder
	b.WriteString("pids=; trap 'code=$?; [ -z \"$pids\" ] || { kill $pids; wait; } >/dev/null 2>&1 || true; exit $code' EXIT\n")
	for n, step := range steps {
		if step.file != "" {
			fmt.Fprintf(&b, "mkdir -p \"$(dirname %[1]s)\"; cat >%[1]s <<'END-OF-BLOCK'\n%[2]sEND-OF-BLOCK\n", step.file, step.content)
			continue
		}
		for m, command := range step.commands {
			b.WriteString("printf '\\036'\n")
			text, background := strings.CutSuffix(command.text, " &")
			if !background {
				fmt.Fprintf(&b, "%s\n", text)
				continue
			}
			log := fmt.Sprintf("$LOGS/%d-%d", n, m)
			fmt.Fprintf(&b, "%[1]s >%[2]s 2>&1 &\npids=\"$pids $!\"\nuntil [ \"$(wc -l <%[2]s)\" -ge %[3]d ]; do kill -0 $!; sleep 0.1; done\ncat %[2]s\n",
				text, log, len(command.shows))
		}
	}
	return b.String()
}

// shown checks that output has the lines that a guide shows, in their order.
func shown(shows []string, output string) error {
	lines := strings.Split(output, "\n")
	for _, want := range shows {
		if strings.TrimSpace(want) == "" || strings.TrimSpace(want) == "…" {
			continue
		}
		pattern := shownPattern(want)
		for len(lines) > 0 && !pattern.MatchString(lines[0]) {
			lines = lines[1:]
		}
		if len(lines) == 0 {
			return fmt.Errorf("the output has no line, after the ones before, like %q", want)
		}
		lines = lines[1:]
	}
	return nil
}

var hasDigit = regexp.MustCompile(`[0-9]`)

func shownPattern(line string) *regexp.Regexp {
	var words []string
	for _, word := range strings.Fields(line) {
		if hasDigit.MatchString(word) && !strings.Contains(word, "…") {
			words = append(words, `\S+`)
			continue
		}
		words = append(words, strings.ReplaceAll(regexp.QuoteMeta(word), "…", ".*"))
	}
	return regexp.MustCompile(`^\s*` + strings.Join(words, `\s+`) + `\s*$`)
}

func TestShownOutput(t *testing.T) {
	output := "first\nNAME  AGE\nweb-84d  2s\n  12.3s at/x  PENDING → RUNNING\n"
	for _, shows := range [][]string{nil, {"first"}, {"NAME   AGE", "web-1 10s"}, {"…", "1s  at/x  PENDING → …"}} {
		if err := shown(shows, output); err != nil {
			t.Errorf("%q: %v", shows, err)
		}
	}
	for _, shows := range [][]string{{"second"}, {"NAME AGE", "first"}, {"PENDING → RUNNING"}} {
		if shown(shows, output) == nil {
			t.Errorf("%q is accepted", shows)
		}
	}
}
