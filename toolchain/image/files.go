package image

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"kelson.dev/toolchain/walk"
)

// File is a file or folder of this machine to copy into an image.
type File struct {
	// Source is its path on this machine, and Path its absolute path in the image. A folder is
	// copied with everything below it.
	Source, Path string
}

// ParseFile reads SOURCE:PATH.
func ParseFile(text string) (File, error) {
	at := strings.LastIndexByte(text, ':')
	if at <= 0 || !strings.HasPrefix(text[at+1:], "/") {
		return File{}, fmt.Errorf("invalid file %q: want SOURCE:PATH, with an absolute path in the image, such as templates:/templates", text)
	}
	return File{Source: text[:at], Path: path.Clean(text[at+1:])}, nil
}

// filesLayer returns a layer with files that root owns and all users may read. Programs stay
// executable. The layer depends only on the names and contents of files.
func filesLayer(created time.Time, program string, files []File) (v1.Layer, error) {
	var entries []entry
	for _, f := range files {
		if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path {
			return nil, fmt.Errorf("copy %s to %s: not an absolute path", f.Source, f.Path)
		}
		err := walk.Dir(f.Source, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			e, err := entryOf(f, name)
			if err != nil || e.name == "" { // the root folder of the image exists
				return err
			}
			entries = append(entries, e)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("copy %s to %s: %w", f.Source, f.Path, err)
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	for i, e := range entries {
		if "/"+e.name == program {
			return nil, fmt.Errorf("copy files: %s is the program", program)
		}
		if i > 0 && e.name == entries[i-1].name && !(e.mode.IsDir() && entries[i-1].mode.IsDir()) {
			return nil, fmt.Errorf("copy files: two files become /%s", e.name)
		}
	}
	entries = slices.CompactFunc(entries, func(a, b entry) bool { return a.name == b.name })
	return layerOf(created, entries)
}

// entryOf returns the entry of a file or folder that is below f.Source, or is it. It follows
// symbolic links to files.
func entryOf(f File, name string) (entry, error) {
	below, err := filepath.Rel(f.Source, name)
	if err != nil {
		return entry{}, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return entry{}, err
	}
	e := entry{name: strings.TrimPrefix(path.Join(f.Path, filepath.ToSlash(below)), "/"), mode: 0o644}
	link := false
	if l, err := os.Lstat(name); err == nil {
		link = l.Mode()&os.ModeSymlink != 0
	}
	switch {
	case info.IsDir() && !link:
		e.mode = 0o755 | os.ModeDir
		return e, nil
	case !info.Mode().IsRegular():
		return entry{}, fmt.Errorf("%s is not a file or folder, nor a link to a file", name)
	case info.Mode()&0o111 != 0:
		e.mode = 0o755
	}
	e.content, err = os.ReadFile(name)
	return e, err
}
