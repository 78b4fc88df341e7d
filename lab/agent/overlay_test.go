package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A go.mod of Go 1.16 need not list the modules that only other modules import. The main package
// with a companion imports such a module, so the copy of the go.mod lists it.
func TestImportedModules(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	err := os.WriteFile(filepath.Join(dir, "go.mod"),
		[]byte("module example.com/shop\n\ngo 1.16\n\nrequire example.com/a v1.2.0\n"), 0o600)
	require.NoError(t, err)
	o := &overlay{cache: cache, imported: map[string]string{"example.com/a": "v1.2.0", "example.com/b": "v1.3.0"}}
	flags, _, err := o.write(t.Context(), Program{Dir: dir})
	require.NoError(t, err)
	copied := filepath.Join(cache, "kelson.mod")
	if got := strings.Join(flags, " "); !strings.Contains(got, "-modfile="+copied) {
		t.Errorf("flags %q, want the copy of the go.mod", got)
	}
	data, err := os.ReadFile(copied)
	if got := string(data); err != nil || strings.Count(got, "example.com/a v1.2.0") != 1 ||
		strings.Count(got, "example.com/b v1.3.0") != 1 {
		t.Errorf("%v, %s, want each module once", err, got)
	}
}

// Calls that open ports, start programs or read the configuration of a Pod are replaced, by the
// path of their package, and lines keep their numbers.
func TestRewrite(t *testing.T) {
	const source = `package main

import (
	"context"
	"net"
	web "net/http"
	run "os/exec"

	"example.com/other/tls"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	_, _ = net.Listen("tcp", ":1")
	_ = web.ListenAndServe(":2", nil)
	server := &web.Server{}
	_ = server.ListenAndServe()
	_ = server.ListenAndServeTLS("a", "b")
	_, _ = (&net.ListenConfig{}).Listen(context.Background(), "tcp", ":3")
	_, _ = tls.Listen("tcp", ":4", nil)
	_, _ = rest.InClusterConfig()
	_, _ = clientcmd.BuildConfigFromFlags("", "")
	_ = run.CommandContext(context.Background(), "git").Run()
	_, _ = new(net.ListenConfig).ListenPacket(context.Background(), "udp", ":5")
}
`
	o := &overlay{agent: "example.com/p/zz_kelson_agent"}
	changed, renamed, err := o.rewrite("main.go", []byte(source), []string{"main"}, false)
	if err != nil || renamed != 1 {
		t.Fatal(renamed, err)
	}
	lines, before := strings.Split(string(changed), "\n"), strings.Split(source, "\n")
	want := map[int]string{
		0:  `package main; import kelson_agent "example.com/p/zz_kelson_agent"; import kelson_rest "k8s.io/client-go/rest"`,
		13: "func " + original + "main() {",
		14: `	_, _ = kelson_agent.Listen("tcp", ":1")`,
		15: `	_ = kelson_agent.ListenAndServe(":2", nil)`,
		17: `	_ = kelson_agent.ServerListenAndServe(server)`,
		18: `	_ = kelson_agent.ServerListenAndServeTLS(server, "a", "b")`,
		19: `	_, _ = kelson_agent.ListenWith((&net.ListenConfig{}), context.Background(), "tcp", ":3")`,
		21: `	_, _ = ` + strings.ReplaceAll(configurations[rest+".InClusterConfig"], "PACKAGE", "rest") + `()`,
		22: `	_, _ = ` + strings.ReplaceAll(configurations[clientcmd+".BuildConfigFromFlags"], "PACKAGE",
			"clientcmd") + `("", "")`,
		23: `	_ = kelson_agent.CommandContext(context.Background(), "git").Run()`,
		24: `	_, _ = kelson_agent.ListenPacketWith(new(net.ListenConfig), context.Background(), "udp", ":5")`,
	}
	for i, line := range before[:len(before)-1] {
		if w, ok := want[i]; ok {
			line = w
		}
		if lines[i] != line {
			t.Errorf("line %d is %q, want %q", i+1, lines[i], line)
		}
	}
	if rest := strings.Join(lines[len(before)-1:], "\n"); !strings.Contains(rest, "var _ = net.Listen") ||
		!strings.Contains(rest, "var _ = clientcmd.BuildConfigFromFlags") {
		t.Errorf("imports are not in use: %q", rest)
	}
	if changed, _, err := o.rewrite("a.go", []byte("package a\n"), nil, false); changed != nil || err != nil {
		t.Errorf("%q, %v, want no change", changed, err)
	}
}

// Locks are replaced, where a package may wait for the control plane while it holds them. Fields
// and embedded types keep their names.
func TestRewriteLocks(t *testing.T) {
	const source = `package a

import locks "sync"

type a struct {
	locks.Mutex
	b locks.RWMutex
}

var once locks.Once
`
	o := &overlay{agent: "example.com/agent"}
	changed, _, err := o.rewrite("a.go", []byte(source), nil, true)
	if err != nil || !mayLock([]byte(source)) {
		t.Fatal(err)
	}
	const want = `package a; import kelson_agent "example.com/agent"

import locks "sync"

type a struct {
	kelson_agent.Mutex
	b kelson_agent.RWMutex
}

var once locks.Once

var _ locks.Mutex // keeps the import in use
var _ locks.RWMutex // keeps the import in use
`
	assert.Equal(t, string(changed), want)
	if changed, _, err := o.rewrite("a.go", []byte(source), nil, false); changed != nil || err != nil {
		t.Errorf("elsewhere: %s, %v", changed, err)
	}
}

// For services, what opens connections is replaced: functions, transports without a dialer, and
// dialers whose type the file shows.
func TestRewriteDialers(t *testing.T) {
	const source = `package a

import (
	"context"
	"crypto/tls"
	"net"
	web "net/http"
)

func f(other interface{ DialContext() }, own *net.Dialer) {
	_, _ = net.Dial("tcp", "a:1")
	_, _ = tls.Dial("tcp", "a:1", nil)
	_ = &web.Transport{MaxIdleConns: 1}
	_ = web.Transport{}
	_ = &web.Transport{DialContext: (&net.Dialer{Timeout: 1}).DialContext}
	d := &net.Dialer{}
	_, _ = d.DialContext(context.Background(), "tcp", "a:1")
	other.DialContext()
	_ = own.DialContext
}
`
	o := &overlay{agent: "example.com/p/zz_kelson_agent", dialing: true}
	changed, _, err := o.rewrite("a.go", []byte(source), nil, false)
	if err != nil || !mayDial([]byte(source)) {
		t.Fatal(err)
	}
	lines, before := strings.Split(string(changed), "\n"), strings.Split(source, "\n")
	want := map[int]string{
		0:  `package a; import kelson_agent "example.com/p/zz_kelson_agent"`,
		10: `	_, _ = kelson_agent.Connect("tcp", "a:1")`,
		11: `	_, _ = kelson_agent.ConnectTLS("tcp", "a:1", nil)`,
		12: `	_ = &web.Transport{DialContext: kelson_agent.DialContext, MaxIdleConns: 1}`,
		13: `	_ = web.Transport{DialContext: kelson_agent.DialContext, }`,
		14: `	_ = &web.Transport{DialContext: kelson_agent.DialerOf((&net.Dialer{Timeout: 1})).DialContext}`,
		16: `	_, _ = kelson_agent.DialerOf(d).DialContext(context.Background(), "tcp", "a:1")`,
	}
	for i, line := range before[:len(before)-1] {
		if w, ok := want[i]; ok {
			line = w
		}
		if lines[i] != line {
			t.Errorf("line %d is %q, want %q", i+1, lines[i], line)
		}
	}
	o.dialing = false
	if changed, _, err := o.rewrite("a.go", []byte(source), nil, false); changed != nil || err != nil {
		t.Errorf("without services: %s, %v", changed, err)
	}
}

// A file that names the file with the namespace of a Pod reads it with the agent. In other files,
// os.ReadFile remains.
func TestRewriteNamespace(t *testing.T) {
	o := &overlay{agent: "example.com/p/zz_kelson_agent"}
	for _, name := range []string{"/var/run/secrets/kubernetes.io/serviceaccount/namespace", "/etc/hosts"} {
		source := "package a\n\nimport \"os\"\n\nvar namespace, err = os.ReadFile(\"" + name + "\")\n"
		changed, _, err := o.rewrite("a.go", []byte(source), nil, false)
		want := strings.Contains(name, namespaceFile)
		if err != nil || strings.Contains(string(changed), `= kelson_agent.ReadFile("`+name) != want ||
			mayCall([]byte(source)) != want {
			t.Errorf("%s: %s, %v", name, changed, err)
		}
	}
}

// A module of the module cache whose files change is replaced by a link. If it has no go.mod,
// because it is older than modules, the overlay adds one.
func TestMovedModule(t *testing.T) {
	for version, want := range map[string]bool{"v3.21.11+incompatible": true, "v1.0.0": false} {
		o := &overlay{shared: t.TempDir(), modules: t.TempDir(), files: map[string][]byte{}, moved: map[string]string{}}
		root := filepath.Join(o.modules, "example.com", "old@"+version)
		require.NoError(t, os.MkdirAll(filepath.Join(root, "host"), 0o755))
		if !want {
			require.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module example.com/old\n"), 0o644))
		}
		dir, err := o.writable(compiled{module: "example.com/old", root: root, dir: filepath.Join(root, "host")})
		require.NoError(t, err)
		added := string(o.files[filepath.Join(filepath.Dir(dir), "go.mod")])
		if (added == "module example.com/old\n") != want || want == (added == "") {
			t.Errorf("%s: go.mod is %q", version, added)
		}
	}
}
