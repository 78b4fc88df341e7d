package dropin

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/fstest"
)

// The small program replaces links to kelson, and both servers also work without it.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable() // plays kelson
	if err != nil {
		t.Fatal(err)
	}
	same := func(a, b string) bool {
		one, err1 := os.Stat(filepath.Join(dir, a))
		other, err2 := os.Stat(filepath.Join(dir, b))
		return err1 == nil && err2 == nil && os.SameFile(one, other)
	}
	if err := installFrom(fstest.MapFS{}, self, dir); err != nil {
		t.Fatal(err)
	}
	if !same("kubectl", "etcd") || !same("kubectl", "kube-apiserver") {
		t.Error("without the small program, kelson is not all three")
	}
	for _, name := range []string{"etcd", "kube-apiserver"} { // links, as earlier versions made
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte("small"))
	_ = w.Close()
	from := fstest.MapFS{"programs/program-" + runtime.GOOS + "-" + runtime.GOARCH + ".gz": {Data: packed.Bytes()}}
	if err := installFrom(from, self, dir); err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join(dir, "etcd"))
	info, statErr := os.Lstat(filepath.Join(dir, "etcd"))
	if err != nil || statErr != nil || string(have) != "small" || info.Mode() != 0o755 {
		t.Errorf("etcd: %q %v %v %v", have, info, err, statErr)
	}
	if same("kubectl", "etcd") || !same("etcd", "kube-apiserver") {
		t.Error("the small program is not both servers")
	}
	if help, err := os.ReadFile(filepath.Join(dir, "kube-apiserver.help")); !bytes.Contains(help, []byte("\n      --etcd-servers ")) {
		t.Errorf("%s %v", help, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "etcd"), []byte("other"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := installFrom(from, self, dir); err == nil {
		t.Error("replaced a file that is not kelson's")
	}
}

// Suites in several processes, such as those of make -j, create the folder at the same time.
func TestInstallAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			if err := installFrom(programs, self, dir); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if left, err := filepath.Glob(filepath.Join(dir, ".new*")); err != nil || len(left) > 0 {
		t.Errorf("left %v %v", left, err)
	}
}

// A folder with current programs, which may be copies of the first ones, does not change.
func TestInstallAgain(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := installFrom(programs, self, dir); err != nil {
		t.Fatal(err)
	}
	kubectl := filepath.Join(dir, "kubectl")
	if err := errors.Join(os.Remove(kubectl), copyFile(self, kubectl)); err != nil {
		t.Fatal(err)
	}
	state := func() (all []os.FileInfo) {
		for _, name := range Names {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, info)
		}
		return all
	}
	before := state()
	if err := installFrom(programs, self, dir); err != nil {
		t.Fatal(err)
	}
	for i, info := range state() {
		if !os.SameFile(info, before[i]) {
			t.Errorf("replaced %s by an equal program", Names[i])
		}
	}
}
