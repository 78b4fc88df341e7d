// Package changes tells of files below a folder that have changed, once they have come to rest.
//
//	watch, err := changes.Watch(dir)
//	defer watch.Close()
//	for range watch.C() { … }
//
// A change is one of content: a file that is written as it was is none. Folders of tools and of output are not looked at.
package changes

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// rest is how long nothing must have happened: editors write files in several steps.
const rest = 100 * time.Millisecond

// passed over are folders without sources.
var passedOver = []string{"bin", "dist", "vendor", "node_modules", "testdata"}

// Watcher follows a folder.
type Watcher struct {
	dir     string
	rest    time.Duration
	watcher *fsnotify.Watcher
	changed chan []string
	done    chan struct{}
	sums    map[string][sha256.Size]byte
}

// Watch begins to follow a folder and what is below it.
func Watch(dir string) (*Watcher, error) { return WatchResting(dir, rest) }

// WatchResting is Watch for whom a change matters once nothing has happened for the given time.
func WatchResting(dir string, rest time.Duration) (*Watcher, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &Watcher{dir: dir, rest: rest, watcher: watcher, changed: make(chan []string), done: make(chan struct{}), sums: map[string][sha256.Size]byte{}}
	if err := w.add(dir); err != nil {
		watcher.Close()
		return nil, err
	}
	w.take()
	go w.run()
	return w, nil
}

// C gives the paths, relative to the folder, of files that changed since the last time.
func (w *Watcher) C() <-chan []string { return w.changed }

// Close ends it.
func (w *Watcher) Close() {
	w.watcher.Close()
	<-w.done
}

// take looks at all files as they are at the beginning.
func (w *Watcher) take() {
	_ = filepath.WalkDir(w.dir, func(name string, entry fs.DirEntry, err error) error {
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

// add follows a folder and those below it.
func (w *Watcher) add(dir string) error {
	return filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil
		}
		if name != w.dir && skip(entry.Name()) {
			return fs.SkipDir
		}
		return w.watcher.Add(name)
	})
}

func skip(name string) bool { return strings.HasPrefix(name, ".") || slices.Contains(passedOver, name) }

// source says whether a file matters.
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
					w.touch(event.Name, touched) // files may have come before it was followed
				}
			} else if source(event.Name) {
				touched[event.Name] = true
			}
			timer.Reset(w.rest)
		case <-w.watcher.Errors:
			// Some events are lost: what changed is seen with the next one.
		case <-timer.C:
			ready = append(ready, w.differ(touched)...)
			slices.Sort(ready)
			ready = slices.Compact(ready)
			clear(touched)
		case out <- ready:
			ready = nil
		}
	}
}

func (w *Watcher) touch(dir string, touched map[string]bool) {
	_ = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && source(name) {
			touched[name] = true
		}
		return nil
	})
}

// differ gives those files whose content is another.
func (w *Watcher) differ(touched map[string]bool) []string {
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
