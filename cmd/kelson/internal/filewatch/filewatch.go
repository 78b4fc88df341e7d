// Package filewatch reports changed source files below a folder after a pause without further
// changes.
//
//	watch, err := filewatch.Watch(dir)
//	defer watch.Close()
//	for range watch.C() { … }
//
// Only a change of content counts: writing the same content again is not reported. Folders of tools
// and of build output are ignored.
package filewatch

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"kelson.dev/toolchain/walk"
)

// defaultPause is long enough for editors, which write files in several steps.
const defaultPause = 100 * time.Millisecond

// ignored lists folders without sources.
var ignored = []string{"bin", "dist", "vendor", "node_modules", "testdata"}

// Watcher watches a folder. Its methods are safe for concurrent use.
type Watcher struct {
	dir     string
	pause   time.Duration
	watcher *fsnotify.Watcher
	changed chan []string
	done    chan struct{}
	sums    map[string][sha256.Size]byte
}

// Watch starts to watch dir and the folders below it. The caller must call Close.
func Watch(dir string) (*Watcher, error) { return WatchPause(dir, defaultPause) }

// WatchPause does the same as Watch and reports changes after a pause of the given length.
func WatchPause(dir string, pause time.Duration) (*Watcher, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &Watcher{dir: dir, pause: pause, watcher: watcher, changed: make(chan []string), done: make(chan struct{}),
		sums: map[string][sha256.Size]byte{}}
	if err := w.add(dir); err != nil {
		watcher.Close()
		return nil, err
	}
	w.addSums()
	go w.run()
	return w, nil
}

// C returns a channel of the files that changed since the last receive, as sorted paths relative to
// the folder.
func (w *Watcher) C() <-chan []string { return w.changed }

// Close stops watching.
func (w *Watcher) Close() {
	w.watcher.Close()
	<-w.done
}

// addSums records the initial content of all files.
func (w *Watcher) addSums() {
	_ = walk.Dir(w.dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if entry.IsDir() {
			if name != w.dir && skip(entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if source(name) {
			w.sums[name] = sum(name)
		}
		return nil
	})
}

// add watches a folder and the folders below it.
func (w *Watcher) add(dir string) error {
	return walk.Dir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil
		}
		if name != w.dir && skip(entry.Name()) {
			return fs.SkipDir
		}
		return w.watcher.Add(name)
	})
}

func skip(name string) bool { return strings.HasPrefix(name, ".") || slices.Contains(ignored, name) }

// source reports whether changes of a file are reported.
func source(name string) bool {
	base := filepath.Base(name)
	if strings.HasPrefix(base, ".") || strings.HasSuffix(base, "_test.go") {
		return false
	}
	switch filepath.Ext(base) {
	case ".go", ".mod", ".sum", ".yaml", ".yml", ".json", ".txt":
		return true
	}
	return false
}

func sum(name string) [sha256.Size]byte {
	data, err := os.ReadFile(name)
	if err != nil {
		return [sha256.Size]byte{}
	}
	return sha256.Sum256(data)
}

func (w *Watcher) run() {
	defer close(w.done)
	touched := map[string]bool{}
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	var ready []string
	for {
		var out chan []string
		if len(ready) > 0 {
			out = w.changed
		}
		select {
		case event, ok := <-w.watcher.Events:
			if !ok {
				return
			}
			if info, err := os.Stat(event.Name); err == nil && info.IsDir() {
				if event.Has(fsnotify.Create) && !skip(filepath.Base(event.Name)) {
					_ = w.add(event.Name)
					w.touch(event.Name, touched) // files can exist before the folder was watched
				}
			} else if source(event.Name) {
				touched[event.Name] = true
			}
			timer.Reset(w.pause)
		case <-w.watcher.Errors:
			// Some events were lost. The next event of such a file reports its change.
		case <-timer.C:
			ready = append(ready, w.changedFiles(touched)...)
			slices.Sort(ready)
			ready = slices.Compact(ready)
			clear(touched)
		case out <- ready:
			ready = nil
		}
	}
}

func (w *Watcher) touch(dir string, touched map[string]bool) {
	_ = walk.Dir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && source(name) {
			touched[name] = true
		}
		return nil
	})
}

// changedFiles returns the touched files whose content differs from the recorded one, and records
// it.
func (w *Watcher) changedFiles(touched map[string]bool) []string {
	var all []string
	for name := range touched {
		now := sum(name)
		if w.sums[name] == now {
			continue
		}
		w.sums[name] = now
		if rel, err := filepath.Rel(w.dir, name); err == nil {
			all = append(all, filepath.ToSlash(rel))
		}
	}
	return all
}
