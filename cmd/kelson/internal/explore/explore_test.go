package explore

import (
	"bytes"
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

// LAB-03: functions are replaced by the package that a file imports, not by its local name.
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
