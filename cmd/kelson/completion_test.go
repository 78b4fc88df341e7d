package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// withoutOutput are the commands without --output, with the reason.
var withoutOutput = map[string]string{
	"kelson kubectl": "kubectl's commands have their own --output", "kelson kube-apiserver": "runs until it is stopped",
	"kelson etcd":  "runs until it is stopped",
	"kelson serve": "runs until it is stopped", "kelson fork": "runs until it is stopped",
	"kelson dev": "runs until it is stopped", "kelson console": "runs until it is stopped",
	"kelson run": "prints the operator's output", "kelson test": "prints the output of go test",
	"kelson record": "runs until it is stopped",
	"kelson init":   "writes files", "kelson create api": "writes files", "kelson create webhook": "writes files",
	"kelson edit": "writes files", "kelson delete api": "writes files",
	"kelson upgrade": "writes files", "kelson generate": "writes files", "kelson manifests": "writes files",
	"kelson man":   "writes files",
	"kelson build": "-o is its file", "kelson package helm": "-o is its file",
	"kelson package installer": "-o is its file", "kelson package olm": "-o is its file",
	"kelson install": "prints the output of kubectl apply", "kelson uninstall": "prints the output of kubectl delete",
	"kelson deploy": "prints the output of kubectl apply", "kelson undeploy": "prints the output of kubectl delete",
	"kelson stop": "prints no data", "kelson token delete": "prints no data",
	"kelson kubectl-plugin install":       "prints no data",
	"kelson kubectl-plugin krew-manifest": "prints YAML",
}

// All commands that print data print JSON and YAML with -o, refuse other formats, and complete the
// formats.
func TestOutputEverywhere(t *testing.T) {
	seen := map[string]bool{}
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Name() != "completion" && sub.Name() != "help" {
				check(sub)
			}
		}
		if c.HasSubCommands() && c.Name() != "history" || c.RunE == nil && c.Run == nil {
			return // prints its help
		}
		path := c.CommandPath()
		seen[path] = true
		f := c.Flags().Lookup("output")
		if _, excepted := withoutOutput[path]; excepted {
			if f != nil && f.Value.Type() == "format" {
				t.Errorf("%s has --output and is in the list of commands without", path)
			}
			return
		}
		if f == nil || f.Shorthand != "o" || f.Value.Type() != "format" {
			t.Errorf("%s has no --output", path)
			return
		}
		for _, format := range []string{"json", "yaml", "text"} {
			assert.NoErrorf(t, f.Value.Set(format), "%s", path)
		}
		assert.Equalf(t, f.Value.String(), "", "%s: --output text is %q", path, f.Value)
		assert.ErrorContainsf(t, f.Value.Set("xml"), "want text, json", "%s accepts --output xml", path)
		if complete, ok := c.GetFlagCompletionFunc("output"); !ok {
			t.Errorf("%s does not complete --output", path)
		} else if got, _ := complete(c, nil, ""); !slices.Contains(got, "json") || !slices.Contains(got, "yaml") {
			t.Errorf("%s completes --output with %q", path, got)
		}
	}
	check(rootCommand())
	for path := range withoutOutput {
		if !seen[path] {
			t.Errorf("there is no command %q", path)
		}
	}
}

// zshDriver types a line into an interactive zsh, presses Tab, and prints each match on its own
// line. Its arguments are zshSetup's file, the script of kelson completion, and the line.
const zshDriver = `emulate -L zsh
zmodload zsh/zpty
zpty shell "zsh -f -i"
zpty -w shell "source ${(q)1} ${(q)2}"
zpty -r shell out '*set''up:done*'
zpty -w -n shell "$3"$'\t'
zpty -r shell out '*matches:*:end*'
print -rl -- ${=${${out##*matches:}%%:end*}}
zpty -d shell`

// zshSetup loads the completion system and a script, and makes Tab print the matches.
const zshSetup = `autoload -U compinit && compinit -D -u
source $1
matches=()
compadd() {
	# calls with -O, -A or -D only compute arrays
	if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
	local -a hits
	builtin compadd -A hits "$@"
	matches+=($hits)
	builtin compadd "$@"
}
capture() { matches=(); _main_complete; print -n "matches:${matches[*]}:end" >/dev/tty; }
zle -C capture complete-word capture
bindkey '^I' capture
print set''up:done`

// Bash, zsh and fish accept the scripts of kelson completion, and complete commands, flags,
// formats, contexts of the kubeconfig, and command lines of the linked kubectl.
func TestCompletion(t *testing.T) {
	kelson := built(t, binary)
	kelson, err := filepath.Abs(kelson)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(kelson, filepath.Join(dir, "kelson")))
	kubeconfig := filepath.Join(dir, "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(
		`{"apiVersion":"v1","kind":"Config","contexts":[{"name":"shop-prod","context":{}},{"name":"shop-test","context":{}},{"name":"other","context":{}}]}`), 0o600))
	env := append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "KUBECONFIG="+kubeconfig)
	lines := map[string]string{
		"kelson hist":                      "history",
		"kelson history b":                 "blame",
		"kelson why --audit":               "--audit-log",
		"kelson vet -o j":                  "json",
		"kelson console --context s":       "shop-prod shop-test",
		"kelson kubectl conf":              "config",
		"kelson serve --node ":             "containers none process simulated",
		"kelson dev --emulated-version 1.": "1.34 1.35 1.36 1.37",
		"kelson kubectl-plugin ":           "install krew-manifest",
	}
	for shell, drive := range map[string]func(script, line string) []string{
		"bash": func(script, line string) []string {
			// functions of the package bash-completion and of interactive shells
			const words = `compopt() { :; }; _get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${words[cword]}; prev=${words[cword-1]}; }; `
			return []string{"-c", words + `source "$1"; line="$2"; read -ra COMP_WORDS <<<"$line"; [[ "$line" == *" " ]] && COMP_WORDS+=("")
				COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); COMP_LINE="$line"; COMP_POINT=${#line}; COMP_TYPE=9; __start_kelson; printf '%s\n' "${COMPREPLY[@]}"`, "bash", script, line}
		},
		"fish": func(script, line string) []string {
			return []string{"--no-config", "-c", `source $argv[1]; complete -C $argv[2]`, script, line}
		},
		"zsh": func(script, line string) []string {
			driver, setup := script+".driver", script+".setup"
			for file, text := range map[string]string{driver: zshDriver, setup: zshSetup} {
				require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			}
			return []string{"-f", driver, setup, script, line}
		},
	} {
		t.Run(shell, func(t *testing.T) {
			program, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("SKIPPED: %s is not installed", shell)
			}
			run := func(name string, args ...string) string {
				cmd := exec.Command(name, args...)
				cmd.Env = env
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				out, err := cmd.Output()
				if err != nil || stderr.Len() > 0 {
					t.Fatalf("%s %q: %v\n%s", name, args, err, stderr.Bytes())
				}
				return string(out)
			}
			script := filepath.Join(t.TempDir(), shell)
			require.NoError(t, os.WriteFile(script, []byte(run(kelson, "completion", shell)), 0o600))
			run(program, "-n", script) // parses it
			for line, want := range lines {
				var got []string
				for text := range strings.Lines(run(program, drive(script, line)...)) {
					word, _, _ := strings.Cut(strings.TrimSpace(text), "\t")
					word, _, _ = strings.Cut(word, " ") // bash shows descriptions too
					got = append(got, word)
				}
				slices.Sort(got)
				assert.Equalf(t, strings.Join(got, " "), want, "%q is completed with %q", line, got)
			}
		})
	}
}
