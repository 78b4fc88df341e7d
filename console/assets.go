package console

import (
	"bytes"
	"compress/gzip"
	"embed"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:generate go run ./build

// dist holds the files that build makes from the pages.
//
//go:embed dist
var dist embed.FS

// packed returns the compressed files, by path. They are compressed on first use instead of in the
// binary: users open the page rarely, and the binary is compressed for distribution anyway.
var packed = sync.OnceValue(func() map[string][]byte {
	files, _ := dist.ReadDir("dist") // embedded
	all := map[string][]byte{}
	for _, f := range files {
		data, _ := dist.ReadFile("dist/" + f.Name())
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		_, _ = w.Write(data)
		_ = w.Close() // writing to memory does not fail
		all["/"+f.Name()] = b.Bytes()
	}
	return all
})

var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// page serves the files. For all paths that do not name a file, it serves the page, which
// interprets the path.
func page() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path
		data, ok := packed()[name]
		if !ok {
			if path.Ext(name) != "" && strings.Count(name, "/") == 1 {
				http.NotFound(w, r)
				return
			}
			name = "/index.html"
			data = packed()[name]
		}
		w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(data)
	})
}
