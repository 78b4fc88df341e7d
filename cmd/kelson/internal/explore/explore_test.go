package explore

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// LAB-03: kelson explore runs a project in kubebuilder's layout, on controller-runtime, unchanged.
func TestControllerRuntime(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a project")
	}
	var out bytes.Buffer
	c := Command()
	c.SetArgs([]string{"../../../../bench/explore/fleet", "--generate=false", "--for", "3s"})
	c.SetOut(&out)
	c.SilenceUsage = true
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "explored ") || !strings.HasSuffix(last, " 0 alarms") {
		t.Errorf("the last line is %q, want a summary without alarms and differences\n%s", last, out.String())
	}
}

// LAB-03: with --process, the program of the same project runs unchanged, as a process.
func TestProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a project")
	}
	var out, errOut bytes.Buffer
	c := Command()
	c.SetArgs([]string{"../../../../bench/explore/fleet", "--generate=false", "--process", "--for", "5s", "--output", "json", "--", "--leader-elect=false"})
	c.SetOut(&out)
	c.SetErr(&errOut)
	c.SilenceUsage = true
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), errOut.String())
	}
	var r Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Plans == 0 || r.Points == 0 || len(r.Alarms) > 0 {
		t.Errorf("%v, %+v, want plans, points and no alarms\n%s", err, r, out.String())
	}
}

// LAB-03: flags that contradict each other or have invalid values are errors.
func TestProcessFlags(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--binary", "x", "--process"}, "--binary and --process exclude each other"},
		{[]string{"--parallel", "-1"}, "--parallel -1: want a positive number"},
		{[]string{"--plan", "kill-after"}, "--plan: fault \"kill-after\": want KIND VERB RESOURCE OBJECT #N"},
		{[]string{"a", "b"}, `unexpected argument "b": put arguments of the operator after --`},
		{[]string{"../../../../bench/explore/fleet", "--binary", "no-such-operator"}, "no-such-operator: "},
	} {
		c := Command()
		c.SetArgs(test.args)
		c.SetOut(io.Discard)
		c.SilenceUsage, c.SilenceErrors = true, true
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q", test.args, err, test.want)
		}
	}
}

// LAB-03: the explorer identifies functions to replace by the path of their package, not by its
// local name.
func TestRewrite(t *testing.T) {
	for name, test := range map[string]struct{ source, want string }{
		"parts": {`package main

import "kelson.dev/operator"

func main() { operator.Main(parts()...) }
`, "func main() { kelsonExploreMain(parts()...) }\n\n// These keep the imports in use.\nvar _ = operator.Main\n"},
		"manager": {`package main

import (
	"os"
	runtime "sigs.k8s.io/controller-runtime"
)

func main() {
	if m, err := runtime.NewManager(runtime.GetConfigOrDie(), runtime.Options{}); err != nil || m.Start(runtime.SetupSignalHandler()) != nil {
		os.Exit(1)
	}
}
`, "kelsonExploreManager(kelsonExploreConfigOrDie(), runtime.Options{}); err != nil || m.Start(kelsonExploreSignals()) != nil {\n\t\tkelsonExploreExit(1)"},
		"other packages": {`package main

import ctrl "example.com/other"

func main() { ctrl.NewManager() }
`, ""},
	} {
		r, err := rewrite("main.go", []byte(test.source))
		if err != nil || !strings.Contains(string(r.source), test.want) || (test.want == "") != (r.source == nil) {
			t.Errorf("%s: %v\n%s\nwant %q", name, err, r.source, test.want)
		}
	}
}
