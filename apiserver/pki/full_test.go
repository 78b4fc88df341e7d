//go:build linux

package pki_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"kelson.dev/apiserver/pki"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// An authority or key that could not be written because the disk was full is created when there is
// space.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("SKIPPED: needs the right to mount: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	files, ballast := filepath.Join(dir, "pki"), filepath.Join(dir, "ballast")
	page := int64(os.Getpagesize())
	for left := range int64(2) {
		f, err := os.Create(ballast)
		require.NoError(t, err)
		for err == nil {
			_, err = f.Write(make([]byte, page))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err == nil {
			err = f.Truncate(info.Size() - left*page)
		}
		require.NoError(t, errors.Join(err, f.Close()))
		_, err = pki.OpenAuthority(files, "ca")
		assert.ErrorIsf(t, err, syscall.ENOSPC, "an authority with %d free pages", left)
		if left == 0 {
			_, err := pki.OpenKey(filepath.Join(files, "sa.key"))
			assert.ErrorIsf(t, err, syscall.ENOSPC, "a key on the full disk")
		}
		require.NoError(t, os.Remove(ballast))
	}
	made, err := pki.OpenAuthority(files, "ca")
	require.NoError(t, err)
	if read, err := pki.OpenAuthority(files, "ca"); err != nil || !read.Certificate.Equal(made.Certificate) {
		t.Error(err)
	}
	_, err = pki.OpenKey(filepath.Join(files, "sa.key"))
	assert.NoError(t, err)
}
