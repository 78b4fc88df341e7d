package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"kelson.dev/cmd/kelson/internal/child"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/scaffold"
)

// A guideStep is a part of a guide that the test runs. A comment in the line before a block, or on
// its own, determines how the test treats it:
//
//	<!-- run -->                       the commands of the console block succeed and print what it shows
//	<!-- run, fails -->                … fail, and print what it shows
//	<!-- run in the background -->     … start, and run until the page ends
//	<!-- file: config/sample.yaml -->  the block is written to the file
//	<!-- go: api/v1/tea_types.go -->   the declarations of the block replace those of the Go file
//	<!-- by hand: COMMAND -->          what a reader does without a command, such as Ctrl-C
//
// All steps of a page run in one shell, which begins in an empty folder. A command that ends with &
// runs in the background, too. The next command waits until a background command has printed its
// last line in the block. $PRINTED is the file with the output of the last background command,
// $LAST its process.
//
// In the output that a block shows, … stands for any text, and a word with a digit for any word;
// other lines may come between those that are shown.
type guideStep struct {
	line       int
	file       string // with content
	isGo       bool
	content    string
	byHand     string
	background bool
	fails      bool
	commands   []guideCommand
}

type guideCommand struct {
	line  int
	text  string
	shows []string
}

// notRun lists the blocks of commands that the test does not run, by page and first line, with the
// reason.
var notRun = map[string]string{
	"tutorial.md: $ make install run":                                                                              "serves webhooks at a fixed port until Ctrl-C; test/scaffold/run.sh runs it",
	"tutorial.md: $ make docker-build docker-push IMG=registry.example/welcome:v1":                                 "needs a container engine and a registry; test/scaffold/run.sh builds the image's content",
	"tutorial.md: $ helm install welcome dist/chart":                                                               "needs Helm; test/scaffold/run.sh runs it",
	"apiserver.md: make docker-build docker-push deploy IMG=registry.example/pizza:v1":                             "needs a container engine, a registry and a cluster",
	"history.md: $ kelson replay incident.history --manager web-operator ./web":                                    "TestReplay runs this command",
	"history.md: $ kelson history import audit.log audit-2026-11-23T10-00-00.log --out incident.history":           "TestImportAuditLog runs this command",
	"history.md: $ kelson history import capture.kshrk --out incident.history":                                     "TestImportCapture runs this command",
	"history.md: $ kelson record --out incident.history":                                                           "TestRecordAndHistory runs these commands",
	"history.md: $ kelson serve --data-dir ./state --history 24h,10GiB":                                            "TestServeWithHistory runs these commands",
	"history.md: $ kelson history --data-dir ./state deployment/web -n shop":                                       "TestServeWithHistory runs these commands",
	"history.md: $ kelson serve --data-dir ./state --at 2026-11-23T10:00:00Z --secure-port 0":                      "TestServeThePast runs these commands",
	"history.md: $ kelson fork --data-dir ./state --at 4802 --to ./fork --secure-port 0":                           "TestServeThePast runs these commands",
	"history.md: $ kelson history --file incident.history deployment/web -n shop":                                  "TestRecordAndHistory runs these commands",
	"history.md: $ kelson history blame --file incident.history deployment/web -n shop .spec --trace scaler.trace": "TestRecordAndHistory and TestBlameCommand run this command",
	"history.md: $ kelson diff --file incident.history --from 2026-11-23T10:00:00Z --to 4802 deployments":          "TestRecordAndHistory runs these commands",
	"history.md: $ kelson diff --since 10m -n shop":                                                                "TestDiffSince runs this command",
	"planning.md: $ kelson plan":                                                                        "TestPlanOfACluster runs this command",
	"planning.md: $ kelson plan --against v1.2.0":                                                       "TestPlanOfACluster runs this command with a program; git revisions need a repository of the project",
	"planning.md: kelson plan --against origin/main --output markdown > plan.md":                        "needs a repository of the project",
	"exploring.md: $ git worktree add ../former v1.0.0":                                                 "TestFormerVersion and TestFormerProgram of lab/explore run such operators",
	"exploring.md: $ kelson explore --process -- --leader-elect=false":                                  "TestProcess and TestBinary of lab/explore run such operators",
	"cluster.md: $ kelson deploy --load --containerd state/node/containerd/containerd.sock":             "test/nodes runs these commands, with containerd",
	"rights.md: $ kelson rights --test --explore":                                                       "TestRightsOfTests runs this command",
	"rights.md: $ kelson rights --test --prove":                                                         "TestRightsOfTests runs this command",
	"operator.md: $ kelson why configmap/tea-config --audit-log audit.log":                              "TestWhyFromAnAuditLog runs this command, on kube-apiserver and on Kelson",
	"rights.md: $ kelson rights --test --yaml --resource-names":                                         "TestResourceNames of lab/rights checks the roles",
	"review.md: kelson plan --generate=false --against origin/main --output markdown >plan.md":          "TestReviewPlans and TestReviewExplores run the action's commands",
	"rights.md: $ cat policy.yaml":                                                                      "TestLeastRights runs these commands",
	"rights.md: $ kelson rights --audit-log audit.log --user system:serviceaccount:shop:manager":        "TestLeastRights runs these commands",
	"rights.md: $ kelson rights --audit-log audit.log --user system:serviceaccount:shop:manager --yaml": "TestLeastRights runs these commands",
	"console.md: $ kelson console --open":                                                               "opens a browser; the tests of console run the page",
	"console.md: $ kelson console --trace operator.trace --trace http://localhost:8090":                 "runs until Ctrl-C; the tests of console run the page",
	"console.md: $ kelson kubectl-plugin install":                                                       "writes to the home directory; TestScripts/kubectl_plugin runs it",
	"cluster.md: $ kubectl autoscale deployment web --min=1 --max=10 --cpu=50%":                         "TestTopAndAutoscale runs these commands",
	"README.md: make run": "TestDevRunsAProject runs what make run runs; make test runs this test",
}

// TestGuides runs the README and the guides. Every block of commands (console or sh) in them must
// have a marker or be listed in notRun.
func TestGuides(t *testing.T) {
	require.Long(t, "compiles projects")
	t.Parallel()
	pages, err := filepath.Glob("../../docs/guides/*.md")
	require.NoError(t, err)
	listed := maps.Clone(notRun)
	for _, page := range append(pages, "../../README.md") {
		data, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range unmarkedBlocks(string(data)) {
			name := filepath.Base(page) + ": " + block
			if notRun[name] == "" {
				t.Errorf("%s: mark the block, or list it in notRun with a reason", name)
			}
			delete(listed, name)
		}
		if steps := guideSteps(string(data)); len(steps) > 0 {
			t.Run(filepath.Base(page), func(t *testing.T) {
				t.Parallel()
				runGuide(t, page, steps)
			})
		}
	}
	for name := range listed {
		t.Errorf("notRun lists %q, which no guide has", name)
	}
}

var guideMarker = regexp.MustCompile(`^<!-- (run|run, fails|run in the background|file: (\S+)|go: (\S+)|by hand: (.+)) -->$`)

// unmarkedBlocks returns the first line of each block of commands without a marker.
func unmarkedBlocks(page string) (first []string) {
	lines := strings.Split(page, "\n")
	for i := 0; i+1 < len(lines); i++ {
		if (lines[i] == "```console" || lines[i] == "```sh") && (i == 0 || !guideMarker.MatchString(lines[i-1])) {
			text, _, _ := strings.Cut(lines[i+1], " #")
			first = append(first, strings.TrimSpace(text))
		}
	}
	return first
}

// guideSteps returns the marked parts of a page.
func guideSteps(page string) []guideStep {
	lines := strings.Split(page, "\n")
	var steps []guideStep
	for i := 0; i < len(lines); i++ {
		match := guideMarker.FindStringSubmatch(lines[i])
		if match == nil {
			continue
		}
		step := guideStep{line: i + 2, file: match[2] + match[3], isGo: match[3] != "", byHand: match[4],
			background: match[1] == "run in the background", fails: match[1] == "run, fails"}
		if step.byHand != "" {
			steps = append(steps, step)
			continue
		}
		if i+1 == len(lines) || !strings.HasPrefix(lines[i+1], "```") {
			continue
		}
		for i += 2; i < len(lines) && lines[i] != "```"; i++ {
			step.content += lines[i] + "\n"
			if step.file != "" {
				continue
			}
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
	kelson, source := guideProgram(t)
	for _, name := range []string{"kelson", "kubectl"} {
		require.NoError(t, os.Symlink(kelson, filepath.Join(bin, name)))
	}
	caches, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	require.NoError(t, err)
	cache := strings.Fields(string(caches))
	script := guideScript(steps)
	if strings.Contains(script, "| jq ") || strings.Contains(script, "\njq ") {
		if _, err := exec.LookPath("jq"); err != nil {
			t.Skip("needs jq")
		}
	}
	env := append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+t.TempDir(),
		"KUBECONFIG=",
		"KELSON="+kelson, "SPLICE="+os.Args[0], "GOCACHE="+cache[0], "GOMODCACHE="+cache[1],
		"GOFLAGS=-mod=mod "+goFlags, "GOPROXY=off", "GOWORK=off", "GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@example.com",
		"TMPDIR="+t.TempDir(), "LOGS="+t.TempDir())
	env = append(env, source...)
	if strings.Contains(script, "\netcd ") {
		script = strings.ReplaceAll(script, "127.0.0.1:2379", etcdAddress(t, bin, &env))
	}

	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", script)
	cmd.Dir = dir
	cmd.Env = env
	cmd.WaitDelay = 10 * time.Second
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err = child.Run(cmd) // a group, so that background commands end with the script when ctx ends
	parts := strings.Split(output.String(), "\x1e")
	if err != nil {
		t.Fatalf("%s: %v\n%s", page, err, parts[len(parts)-1])
	}
	var commands []guideCommand
	for _, step := range steps {
		commands = append(commands, step.commands...)
	}
	if len(parts) != len(commands)+1 {
		t.Fatalf("%s: %d of %d commands ran\n%s", page, len(parts)-1, len(commands), output.String())
	}
	for i, command := range commands {
		if err := shown(command.shows, parts[i+1]); err != nil {
			t.Errorf("%s:%d: $ %s: %v\nIt printed:\n%s", page, command.line, command.text, err, parts[i+1])
		}
	}
}

// guideProgram returns the kelson that runs the guides, and the environment in which it finds its
// source. Both are those of the release in the folder that KELSON_RELEASE names (make dist), if it
// is set; a proxy in that folder has the modules.
func guideProgram(t *testing.T) (kelson string, env []string) {
	t.Helper()
	release := os.Getenv("KELSON_RELEASE")
	if release == "" {
		kelson, err := filepath.Abs(built(t, binary))
		require.NoError(t, err)
		source, err := scaffold.SourceOf(os.Getenv("KELSON_CHECKOUT"), "")
		require.NoError(t, err)
		return kelson, []string{"KELSON_CHECKOUT=" + source.Checkout}
	}
	dir := t.TempDir()
	archive := filepath.Join(release, fmt.Sprintf("kelson-%s-%s.tar.gz", runtime.GOOS, runtime.GOARCH))
	if out, err := exec.Command("tar", "-xzf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v\n%s", archive, err, out)
	}
	proxies, err := exec.Command("go", "env", "GOPROXY").Output()
	require.NoError(t, err)
	modules, err := filepath.Abs(filepath.Join(release, "modules"))
	require.NoError(t, err)
	return filepath.Join(dir, "kelson"), []string{
		"GOPROXY=file://" + modules + "," + strings.TrimSpace(string(proxies)), "GONOSUMDB=kelson.dev", "GOPRIVATE=",
		"GONOPROXY=none",
	}
}

// The tutorial works with a release: projects require the published modules, without a replace
// directive.
func TestTutorialWithARelease(t *testing.T) {
	if os.Getenv("KELSON_RELEASE") == "" {
		t.Skip("SKIPPED: KELSON_RELEASE does not name the folder of a release; make dist-test runs this test")
	}
	page := "../../docs/guides/tutorial.md"
	data, err := os.ReadFile(page)
	require.NoError(t, err)
	steps := guideSteps(string(data))
	runGuide(t, page, append(steps, guideStep{commands: []guideCommand{
		{text: "grep -c '^replace' go.mod || true", shows: []string{"0"}},
		{text: `test $(go list -m -f '{{.Version}}' kelson.dev/operator) = $($KELSON version | cut -d' ' -f2 | tr -d ,)`},
	}}))
}

// etcdAddress puts etcd into bin, configures it to listen on a free port, and returns its address.
func etcdAddress(t *testing.T, bin string, env *[]string) string {
	t.Helper()
	etcd, err := filepath.Abs("../../bin/peers/etcd")
	if err == nil {
		_, err = os.Stat(etcd)
	}
	if err != nil {
		etcd, err = buildTo("etcd", "../../bench/peers/etcd")
	}
	if err == nil {
		err = os.Symlink(etcd, filepath.Join(bin, "etcd"))
	}
	listener, listenErr := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, errors.Join(err, listenErr))
	defer listener.Close()
	address := listener.Addr().String()
	*env = append(*env, "ETCD_LISTEN_CLIENT_URLS=http://"+address, "ETCD_ADVERTISE_CLIENT_URLS=http://"+address,
		"ETCD_LISTEN_PEER_URLS=http://127.0.0.1:0")
	return address
}

// guideScript returns the shell script of a page. It prints U+001E before the output of each
// command.
func guideScript(steps []guideStep) string {
	var b strings.Builder
	b.WriteString("pids=; trap 'code=$?; [ -z \"$pids\" ] || { kill $pids; wait; } >/dev/null 2>&1 || true; exit $code' EXIT\n")
	for n, step := range steps {
		switch {
		case step.byHand != "":
			fmt.Fprintf(&b, "%s\n", step.byHand)
		case step.isGo:
			fmt.Fprintf(&b, "\"$SPLICE\" splice %s <<'END-OF-BLOCK'\n%sEND-OF-BLOCK\n", step.file, step.content)
		case step.file != "":
			fmt.Fprintf(&b, "mkdir -p \"$(dirname %[1]s)\"; cat >%[1]s <<'END-OF-BLOCK'\n%[2]sEND-OF-BLOCK\n",
				step.file, step.content)
		}
		for m, command := range step.commands {
			b.WriteString("printf '\\036'\n")
			text, background := strings.CutSuffix(command.text, " &")
			switch {
			case step.fails:
				fmt.Fprintf(&b, "if\n%s\nthen echo 'no error'; exit 1; fi\n", text)
				continue
			case !background && !step.background:
				fmt.Fprintf(&b, "%s\n", text)
				continue
			}
			last := ""
			for _, line := range command.shows {
				if words := strings.Fields(line); len(words) > 0 && line != "…" {
					last = pattern(words, "[^[:space:]]+", "[[:space:]]+")
				}
			}
			fmt.Fprintf(&b, "PRINTED=\"$LOGS/%d-%d\"; tries=0\n%s >\"$PRINTED\" 2>&1 &\nLAST=$!; pids=\"$pids $LAST\"\n"+
				"until [ -e \"$PRINTED\" ] && grep -Eq '%s' \"$PRINTED\"; do kill -0 $LAST && tries=$((tries + 1)) && [ $tries -lt 900 ] || { cat \"$PRINTED\"; exit 1; }; sleep 0.1; done\ncat \"$PRINTED\"\n",
				n, m, text, last)
		}
	}
	return b.String()
}

// shown checks that output has the lines that a guide shows, in their order. The operator reports
// its reconciles itself, so those lines (with ⟳) may come before or after the changes that kelson
// dev sees in a watch; they are in order among themselves.
func shown(shows []string, output string) error {
	lines := strings.Split(output, "\n")
	isReport := func(line string) bool { return strings.Contains(line, "⟳") }
	isChange := func(line string) bool { return !isReport(line) }
	return cmp.Or(inOrder(slices.DeleteFunc(slices.Clone(shows), isReport), lines),
		inOrder(slices.DeleteFunc(slices.Clone(shows), isChange), lines))
}

// inOrder checks that lines has the lines that a guide shows, in their order.
func inOrder(shows, lines []string) error {
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
	return regexp.MustCompile(pattern(strings.Fields(line), `\S+`, `\s+`))
}

// pattern returns a regular expression for a line that a guide shows, with the syntax for a word
// and for white space.
func pattern(line []string, word, space string) string {
	var words []string
	for _, w := range line {
		if hasDigit.MatchString(w) && !strings.Contains(w, "…") {
			words = append(words, word)
			continue
		}
		words = append(words, strings.ReplaceAll(regexp.QuoteMeta(w), "…", ".*"))
	}
	blank := strings.TrimSuffix(space, "+") + "*"
	return "^" + blank + strings.Join(words, space) + blank + "$"
}

func TestShownOutput(t *testing.T) {
	output := "first\nNAME  AGE\nweb-84d  2s\n  12.3s at/x  ⟳ reconciled\n  12.3s at/x  PENDING → RUNNING\n  12.4s at/x  ⟳ again\n"
	for _, shows := range [][]string{nil, {"first"}, {"NAME   AGE", "web-1 10s"}, {"…", "1s  at/x  PENDING → …"},
		{"1s at/x  PENDING → RUNNING", "1s at/x  ⟳ reconciled", "2s at/x  ⟳ again"}} {
		assert.NoErrorf(t, shown(shows, output), "%q", shows)
	}
	for _, shows := range [][]string{{"second"}, {"NAME AGE", "first"}, {"PENDING → RUNNING"},
		{"2s at/x  ⟳ again", "1s at/x  ⟳ reconciled"}} {
		if shown(shows, output) == nil {
			t.Errorf("%q is accepted", shows)
		}
	}
}
