package kelson_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// compiledApart lists the targets of the Makefile that compile packages with flags of their own,
// with the reason. Each other target finds the packages that make build has compiled.
var compiledApart = map[string]string{
	"release":           "optimized with a profile",
	"bench":             "measures the release",
	"bench-adapter":     "measures the release",
	"bench-etcd":        "measures the release",
	"bench-envtest":     "measures the release",
	"bench-history":     "measures the release",
	"bench-million":     "measures the release",
	"bench-nodes":       "measures the release",
	"bench-operator":    "measures the release",
	"bench-scale":       "measures the release",
	"race":              "the race detector needs cgo, and instruments every package",
	"vet-darwin":        "another system, with the flags of its release",
	"vet-windows":       "another system, with the flags of its release",
	"conformance-nodes": "bin/kelson-dns contains no paths of this machine",
	"kelson-dns":        "contains no paths of this machine",
	"nodes":             "bin/kelson-dns contains no paths of this machine",
	"fuzz":              "the fuzzer instruments every package",
}

// TestTargetsShareCompiledPackages checks that the targets of the Makefile, the scripts and a
// project's build use the same flags of the compiler. With another flag, or with cgo, the go
// command compiles Kubernetes again, which takes minutes. Flags of the linker and of go vet do not
// matter.
func TestTargetsShareCompiledPackages(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("SKIPPED: make is not installed")
	}
	makefile, err := os.ReadFile("Makefile")
	require.NoError(t, err)
	targets := regexp.MustCompile(`(?m)^([a-z][a-z -]*):.*## `).FindAllStringSubmatch(string(makefile), -1)
	if len(targets) < 50 {
		t.Fatalf("found %d targets in the Makefile", len(targets))
	}
	for _, target := range targets {
		for name := range strings.FieldsSeq(target[1]) {
			recipe := makeOutput(t, "-n", name)
			flags := compilerFlags(recipe)
			why, apart := compiledApart[name]
			if len(flags) > 0 && !apart {
				t.Errorf("make %s compiles packages with %q, and make build does not: without them, it needs to compile nothing again", name, flags)
			}
			if len(flags) == 0 && apart {
				t.Errorf("make %s compiles packages like make build: delete %q from compiledApart", name, why)
			}
		}
	}
}

// With these flags, the go command does not keep the results of tests, and runs all of them again.
func TestMakeKeepsResultsOfTests(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("SKIPPED: make is not installed")
	}
	recipes := makeOutput(t, "-n", "test", "check")
	assert.Contains(t, recipes, "go test ")
	if flag := regexp.MustCompile(` --?(exec|count|cpuprofile|coverprofile)[ =]`).FindString(recipes); flag != "" {
		t.Errorf("make test and make check call go test with%s", flag)
	}
}

// Recipes run with the environment that make exports, whatever the user's is.
func TestMakeTurnsCgoOff(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("SKIPPED: make is not installed")
	}
	t.Setenv("CGO_ENABLED", "1")
	const rule = "--eval=show-setting: ; @echo cgo is $$CGO_ENABLED"
	out := makeOutput(t, rule, "show-setting")
	assert.Containsf(t, out, "cgo is 0\n", "recipes run with another setting of cgo than 0")
}

// The go command compiles alike in a script and in a recipe: scripts inherit the environment of
// make, and .ci/run sets it.
func TestScriptsShareCompiledPackages(t *testing.T) {
	scripts, err := filepath.Glob("test/*/*.sh")
	if err != nil || len(scripts) < 10 {
		t.Fatalf("found %d scripts, %v", len(scripts), err)
	}
	more, _ := filepath.Glob("test/*.sh")
	for _, name := range append(append(scripts, more...), ".ci/run") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		if name == "test/scaffold/run.sh" { // compiles a project as its Dockerfile does
			continue
		}
		if flags := compilerFlags(string(text)); len(flags) > 0 {
			t.Errorf("%s compiles packages with %q", name, flags)
		}
	}
	ci, err := os.ReadFile(".ci/run")
	if first := strings.Index(string(ci), "\ngo "); err != nil ||
		!strings.Contains(string(ci[:max(first, 0)]), "\nexport CGO_ENABLED=0") {
		t.Errorf(".ci/run calls the go command before it turns cgo off, as the Makefile does (%v)", err)
	}
}

func TestCompilerFlags(t *testing.T) {
	const recipe = `mkdir -p bin && x=$(go env GOOS) && \
	go build -buildvcs=false -ldflags '-s -w -trimpath' -o bin/x ./x && go vet -trimpath=false ./... ; gzip -tags x
cd a && CGO_ENABLED=1 GOWORK=off go test -timeout 40m -race -run 'A -tags' ./... | go run ./x -pgo=off -- go test -tags=a ./y
GOFLAGS=-mod=mod go install example.com/x@v1
go build -toolexec 'env GOGC=1000 GOMAXPROCS=1' ./x && go vet -toolexec 'env GOARCH=arm64' ./x`
	want := []string{"-race", "-tags=a", "-toolexec", "-trimpath=false", "CGO_ENABLED=1"}
	assert.Slicef(t, compilerFlags(recipe), want, "flags")
}

func makeOutput(t *testing.T, args ...string) string {
	t.Helper()
	var problem bytes.Buffer
	cmd := exec.Command("make", append([]string{"--no-print-directory"}, args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // of a make that runs this test
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=") || strings.HasPrefix(v, "TESTER=")
	})
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("make %q: %v: %s", args, err, problem.String())
	} else if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

var (
	// shellWord is a word of a shell command, or an operator between commands.
	shellWord    = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|\\.|[^\s'"\\;&|(){}` + "`" + `])+|[;&|(){}` + "`" + `\n]`)
	compilerFlag = regexp.MustCompile(`^--?(race|msan|asan|trimpath|tags|gcflags|asmflags|gccgoflags|pgo|cover\w*|fuzz|installsuffix|compiler|toolexec)(=|$)`)
	// environment is the argument of -toolexec that only sets how the tools use the machine.
	environment      = regexp.MustCompile(`^'env( (GOGC|GOMAXPROCS)=\d+)+'$`)
	compilerVariable = regexp.MustCompile(`^(CGO_ENABLED|GOOS|GOARCH|GOAMD64|GOARM64|GOEXPERIMENT|GOFLAGS|GOTOOLCHAIN)=(.*)$`)
	// compiling are the subcommands that compile packages.
	compiling = []string{"build", "install", "run", "test", "vet", "list", "generate"}
)

// compilerFlags returns the flags and variables of calls of the go command in a shell script with
// which it compiles packages in another way than by default, sorted.
func compilerFlags(script string) []string {
	script = strings.ReplaceAll(script, "\\\n", " ")
	var found, pending []string // pending are the variables of the current command
	inGo, inRun := false, false // the words are flags of a go command that compiles, of go run
	words := shellWord.FindAllString(script, -1)
	for i, word := range words {
		switch {
		case len(word) == 1 && strings.Contains(";&|(){}`\n", word):
			inGo, pending = false, nil
		case word == "go" && i+1 < len(words) && slices.Contains(compiling, words[i+1]):
			inGo, inRun = true, words[i+1] == "run"
			found, pending = append(found, pending...), nil
		case inGo && word == "-toolexec" && i+1 < len(words) && environment.MatchString(words[i+1]):
		case inGo && compilerFlag.MatchString(word):
			found = append(found, word)
		case inRun && inGo && words[i-1] != "go" && !strings.HasPrefix(word, "-"):
			inGo = false // the rest are arguments of the program
		case !inGo && compilerVariable.MatchString(word) && word != "CGO_ENABLED=0" &&
			!strings.HasPrefix(word, "GOFLAGS=-mod="):
			pending = append(pending, word)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
