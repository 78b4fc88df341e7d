package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// stage collects changes of a project's folder until commit, which applies all of them or none.
// Names are relative, with slashes. Files are text. In the stage their lines end with LF; commit
// writes changed files with the line ends that they have on the disk, which are CRLF in checkouts
// of Git for Windows.
type stage struct {
	dir   string            // "": not on the disk
	files map[string][]byte // content after commit; nil: removed
}

func newStage(dir string) *stage { return &stage{dir: dir, files: map[string][]byte{}} }

func (s *stage) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// onDisk reads a file from the disk, with LF line ends. It returns nil if the file does not exist.
func (s *stage) onDisk(name string) ([]byte, error) {
	data, err := s.raw(name)
	if len(data) == 0 {
		return data, err
	}
	return bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), err
}

// raw reads a file from the disk with its own line ends. It returns nil if the file does not exist.
func (s *stage) raw(name string) ([]byte, error) {
	if s.dir == "" {
		return nil, nil
	}
	data, err := os.ReadFile(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && data == nil {
		data = []byte{}
	}
	return data, err
}

// read returns the staged content of a file, or nil if it does not exist.
func (s *stage) read(name string) ([]byte, error) {
	if data, ok := s.files[name]; ok {
		return data, nil
	}
	return s.onDisk(name)
}

func (s *stage) exists(name string) bool {
	data, err := s.read(name)
	return err == nil && data != nil
}

func (s *stage) write(name string, data []byte) {
	if data == nil {
		data = []byte{}
	}
	s.files[name] = data
}

func (s *stage) remove(name string) { s.files[name] = nil }

// edit applies a function to a file.
func (s *stage) edit(name string, change func([]byte) ([]byte, error)) error {
	data, err := s.read(name)
	if err != nil {
		return err
	}
	changed, err := change(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if data != nil || len(changed) > 0 {
		s.write(name, changed)
	}
	return nil
}

// glob returns the staged files that match a pattern.
func (s *stage) glob(pattern string) []string {
	found := map[string]bool{}
	if s.dir != "" {
		// Not filepath.Glob, which takes brackets in the name of the project's folder as a pattern.
		onDisk, _ := fs.Glob(os.DirFS(s.dir), pattern) // the patterns of the callers are valid
		for _, name := range onDisk {
			found[name] = true
		}
	}
	for name, data := range s.files {
		if ok, _ := path.Match(pattern, name); ok {
			found[name] = data != nil
		}
	}
	maps.DeleteFunc(found, func(_ string, there bool) bool { return !there })
	return slices.Sorted(maps.Keys(found))
}

// Change is the change of one file.
type Change struct {
	Path string // relative to the project, with slashes
	What string // Created, Changed or Deleted
}

// Actions of a Change.
const (
	Created = "created"
	Changed = "changed"
	Deleted = "deleted"
)

// changes returns the changes that commit would apply.
func (s *stage) changes() ([]Change, error) {
	var all []Change
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		before, err := s.onDisk(name)
		if err != nil {
			return nil, err
		}
		now := s.files[name]
		switch {
		case before == nil && now != nil:
			all = append(all, Change{name, Created})
		case before != nil && now == nil:
			all = append(all, Change{name, Deleted})
		case !bytes.Equal(before, now):
			all = append(all, Change{name, Changed})
		}
	}
	return all, nil
}

// commit applies the changes to the disk. It first writes all new content to temporary files next
// to the targets, which fails on a full or read-only disk, and then renames them. If a rename
// fails, commit undoes the earlier ones. Its error names the files that it could not restore.
func (s *stage) commit() ([]Change, error) {
	all, err := s.changes()
	if err != nil {
		return nil, err
	}
	var undo []func() error
	fail := func(err error) ([]Change, error) {
		errs := []error{err}
		for _, f := range slices.Backward(undo) {
			errs = append(errs, f())
		}
		return nil, errors.Join(errs...)
	}
	temporary := map[string]string{}
	for _, c := range all {
		name := s.path(c.Path)
		if c.What == Deleted {
			continue
		}
		made, err := makeDir(filepath.Dir(name))
		undo = append(undo, func() error { removeDirs(made); return nil })
		if err != nil {
			return fail(err)
		}
		before, err := s.raw(c.Path)
		if err != nil {
			return fail(err)
		}
		tmp := temporaryName(name)
		mode := fs.FileMode(0o644)
		if info, err := os.Stat(name); err == nil {
			mode = info.Mode().Perm()
		}
		undo = append(undo, func() error { return removeIfThere(tmp) })
		if err := os.WriteFile(tmp, withEndsOf(before, s.files[c.Path]), mode); err != nil {
			return fail(err)
		}
		temporary[c.Path] = tmp
	}
	for _, c := range all {
		name := s.path(c.Path)
		before, err := s.raw(c.Path)
		if err != nil {
			return fail(err)
		}
		mode := fs.FileMode(0o644)
		if info, err := os.Stat(name); err == nil {
			mode = info.Mode().Perm()
		}
		if c.What == Deleted {
			err = os.Remove(name)
		} else {
			err = os.Rename(temporary[c.Path], name)
		}
		if err != nil {
			return fail(err)
		}
		undo = append(undo, func() error { return restore(name, before, mode) })
	}
	for _, c := range all {
		if c.What == Deleted {
			s.prune(path.Dir(c.Path))
		}
	}
	return all, nil
}

// withEndsOf returns a text, whose lines end with LF, with CRLF if most lines of another text end
// so.
func withEndsOf(other, text []byte) []byte {
	if 2*bytes.Count(other, []byte("\r\n")) <= bytes.Count(other, []byte("\n")) {
		return text
	}
	return bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
}

func temporaryName(name string) string {
	return filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".kelson")
}

// restore gives a file its former content, or removes it if before is nil. The file is as it was if
// restore fails.
func restore(name string, before []byte, mode fs.FileMode) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore %s: %w", name, err)
		}
	}()
	if before == nil {
		return removeIfThere(name)
	}
	tmp := temporaryName(name)
	err = os.WriteFile(tmp, before, mode)
	if err == nil {
		err = os.Rename(tmp, name)
	}
	if err != nil {
		return errors.Join(err, removeIfThere(tmp))
	}
	return nil
}

func removeIfThere(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// prune removes folders that are now empty.
func (s *stage) prune(dir string) {
	for ; dir != "." && dir != "/"; dir = path.Dir(dir) {
		if os.Remove(s.path(dir)) != nil {
			return
		}
	}
}

// makeDir creates a folder and returns the folders that it had to create, the outermost first.
func makeDir(dir string) (made []string, err error) {
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || d == filepath.Dir(d) {
			break
		}
		made = append([]string{d}, made...)
	}
	return made, os.MkdirAll(dir, 0o755)
}

func removeDirs(dirs []string) {
	for _, d := range slices.Backward(dirs) {
		os.Remove(d)
	}
}

// snapshot returns all files of a stage without a disk.
func (s *stage) snapshot() map[string][]byte {
	all := map[string][]byte{}
	for name, data := range s.files {
		if data != nil && !strings.HasSuffix(name, "/") {
			all[name] = data
		}
	}
	return all
}
