package dropin

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"runtime"
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
	if err := installFrom(from, self, dir); err == nil {
		t.Error("replaced a file that is not kelson's")
	}
}
