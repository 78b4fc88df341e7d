package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"kelson.dev/internal/require"
	"kelson.dev/toolchain/scaffold"
)

var update = flag.Bool("update", false, "write the output of commands to the scripts and the documentation instead of comparing it")

// TestScripts runs the scripts in testdata/script, which are sequences of commands, and compares
// their output with files in the scripts.
//
//	go test ./cmd/kelson -run Scripts -update
//
// updates these files. Scripts whose names begin with slow_ compile projects.
func TestScripts(t *testing.T) {
	t.Parallel()
	kelson, err := filepath.Abs(built(t, binary))
	require.NoError(t, err)
	bin := t.TempDir()
	for _, name := range []string{"kelson", "kubectl"} {
		require.NoError(t, os.Symlink(kelson, filepath.Join(bin, name)))
	}
	caches, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "CGO_ENABLED").Output()
	require.NoError(t, err)
	cache := strings.Fields(string(caches))
	source, err := scaffold.SourceOf(os.Getenv("KELSON_CHECKOUT"), "")
	require.NoError(t, err)
	files, err := filepath.Glob("testdata/script/*.txtar")
	require.NoError(t, err)
	if testing.Short() {
		files = slices.DeleteFunc(files, func(name string) bool {
			return strings.HasPrefix(filepath.Base(name), "slow_")
		})
	}
	testscript.Run(t, testscript.Params{
		Files:         files,
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			env.Setenv("KELSON", kelson)
			env.Setenv("CHECKOUT", source.Checkout)
			env.Setenv("GOCACHE", cache[0])
			env.Setenv("GOMODCACHE", cache[1])
			env.Setenv("GOFLAGS", "-mod=mod "+goFlags)
			env.Setenv("GOPROXY", "off")
			env.Setenv("CGO_ENABLED", cache[2]) // another setting compiles every package again
			env.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"tree":  tree,
			"serve": serveInScript,
		},
	})
}

// tree compares two folders: [!] tree A B.
func tree(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: tree A B")
	}
	a, b := content(ts, args[0]), content(ts, args[1])
	var differ []string
	for name := range maps.Keys(a) {
		if _, ok := b[name]; !ok {
			differ = append(differ, "only in "+args[0]+": "+name)
		} else if !bytes.Equal(a[name], b[name]) {
			differ = append(differ, "differs: "+name)
		}
	}
	for name := range maps.Keys(b) {
		if _, ok := a[name]; !ok {
			differ = append(differ, "only in "+args[1]+": "+name)
		}
	}
	slices.Sort(differ)
	if neg == (len(differ) == 0) {
		ts.Fatalf("%d differences\n%s", len(differ), strings.Join(differ, "\n"))
	}
}

func content(ts *testscript.TestScript, dir string) map[string][]byte {
	files := map[string][]byte{}
	root := ts.MkAbs(dir)
	ts.Check(filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && entry.Name() == ".git" {
			return fs.SkipDir
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			files[rel+"/"] = nil
			return nil
		}
		files[rel], err = os.ReadFile(name)
		return err
	}))
	return files
}

// serveInScript starts a server for the script and sets KUBECONFIG: serve FLAG...
func serveInScript(ts *testscript.TestScript, neg bool, args []string) {
	kubeconfig := ts.MkAbs("kubeconfig")
	cmd := exec.Command(ts.Getenv("KELSON"), append([]string{"serve", "--in-memory", "--secure-port=0", "--kubeconfig",
		kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+ts.MkAbs("tmp"))
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(os.MkdirAll(ts.MkAbs("tmp"), 0o755))
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !readyLine.MatchString(strings.TrimSpace(line)) {
		ts.Fatalf("the server printed %q: %v", line, err)
	}
	ts.Setenv("KUBECONFIG", kubeconfig)
	fmt.Fprint(ts.Stdout(), line)
}
