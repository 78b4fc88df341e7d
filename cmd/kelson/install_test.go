package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/fstest"

	"kelson.dev/cmd/kelson/internal/dropin"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// The small program replaces links to kelson, and both servers also work without it.
func TestInstallEnvtest(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable() // plays kelson
	require.NoError(t, err)
	same := func(a, b string) bool {
		one, err1 := os.Stat(filepath.Join(dir, a))
		other, err2 := os.Stat(filepath.Join(dir, b))
		return err1 == nil && err2 == nil && os.SameFile(one, other)
	}
	require.NoError(t, dropin.InstallFrom(fstest.MapFS{}, self, dir))
	if !same("kubectl", "etcd") || !same("kubectl", "kube-apiserver") {
		t.Error("without the small program, kelson is not all three")
	}
	for _, name := range []string{"etcd", "kube-apiserver"} { // links, as earlier versions made
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
		require.NoError(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	from := smallProgram(t)
	require.NoError(t, dropin.InstallFrom(from, self, dir))
	have, err := os.ReadFile(filepath.Join(dir, "etcd"))
	info, statErr := os.Lstat(filepath.Join(dir, "etcd"))
	if err != nil || statErr != nil || string(have) != "small" || info.Mode() != 0o755 {
		t.Errorf("etcd: %q %v %v %v", have, info, err, statErr)
	}
	if same("kubectl", "etcd") || !same("etcd", "kube-apiserver") {
		t.Error("the small program is not both servers")
	}
	if help, err := os.ReadFile(filepath.Join(dir, "kube-apiserver.help")); !bytes.Contains(help,
		[]byte("\n      --etcd-servers ")) {
		t.Errorf("%s %v", help, err)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etcd"), []byte("other"), 0o755))
	if err := dropin.InstallFrom(from, self, dir); err == nil {
		t.Error("replaced a file that is not kelson's")
	}
}

// smallProgram returns the folder of the small program, with another content.
func smallProgram(t *testing.T) fstest.MapFS {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte("small"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return fstest.MapFS{"programs/program-" + runtime.GOOS + "-" + runtime.GOARCH + ".gz": {Data: packed.Bytes()}}
}

// Suites in several processes, such as those of make -j, create the folder at the same time.
func TestInstallEnvtestAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			assert.NoError(t, dropin.InstallFrom(smallProgram(t), self, dir))
		})
	}
	calls.Wait()
	if left, err := filepath.Glob(filepath.Join(dir, ".new*")); err != nil || len(left) > 0 {
		t.Errorf("left %v %v", left, err)
	}
}

// A folder with current programs, which may be copies of the first ones, does not change.
func TestInstallEnvtestAgain(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, dropin.InstallFrom(smallProgram(t), self, dir))
	kubectl := filepath.Join(dir, "kubectl")
	program, err := os.Open(self)
	require.NoError(t, err)
	defer program.Close()
	require.NoError(t, os.Remove(kubectl))
	replaced, err := os.OpenFile(kubectl, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err == nil {
		_, err = io.Copy(replaced, program)
	}
	require.NoError(t, errors.Join(err, replaced.Close()))
	state := func() (all []os.FileInfo) {
		for _, name := range dropin.Names {
			info, err := os.Stat(filepath.Join(dir, name))
			require.NoError(t, err)
			all = append(all, info)
		}
		return all
	}
	before := state()
	require.NoError(t, dropin.InstallFrom(smallProgram(t), self, dir))
	for i, info := range state() {
		if !os.SameFile(info, before[i]) {
			t.Errorf("replaced %s by an equal program", dropin.Names[i])
		}
	}
}
