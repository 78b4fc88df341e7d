package bundle_test

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"kelson.dev/console/internal/bundle"
	"kelson.dev/internal/require"
)

// These tests are not in the console's folder: esbuild lists all folders above the sources, so the
// go command runs them again when git has touched its index.
const (
	sources = "../.."
	dist    = sources + "/dist"
)

// Building the sources results in exactly the committed files, on any machine.
func TestRebuildIsIdentical(t *testing.T) {
	built, err := bundle.Build(sources)
	require.NoError(t, err)
	for name, want := range built {
		got, err := os.ReadFile(filepath.Join(dist, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("dist/%s differs from its sources: run go generate in console", name)
		}
	}
	files, err := os.ReadDir(dist)
	require.NoError(t, err)
	for _, f := range files {
		if built[f.Name()] == nil {
			t.Errorf("dist/%s is not built from the sources: remove it", f.Name())
		}
	}
}

// maxPage bounds what a browser loads to show all views, in bytes, compressed.
const maxPage = 150 << 10

func TestPageIsSmall(t *testing.T) {
	total := 0
	for _, name := range []string{"index.html", "console.js", "console.css", "icon.svg", "terminal.js"} {
		data, err := os.ReadFile(filepath.Join(dist, name))
		require.NoError(t, err)
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err = w.Write(data)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		total += b.Len()
	}
	t.Logf("the page has %d bytes, compressed", total)
	if total > maxPage {
		t.Errorf("the page has %d bytes, compressed; at most %d are allowed", total, maxPage)
	}
}
