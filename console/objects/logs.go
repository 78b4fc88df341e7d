package objects

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"kelson.dev/console/internal/cluster"
	"kelson.dev/console/internal/web"
)

const (
	// tailLines is the number of earlier lines of a log that the page shows when it opens.
	tailLines = "2000"
	// maxLine bounds a line of a log in bytes; the rest of the line is dropped.
	maxLine = 16 << 10
	// gather is the time for which lines are collected before they are sent together.
	gather = 50 * time.Millisecond
)

// logs streams the lines of a container's log as events named lines.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	pods := cluster.Kind{Version: "v1", Resource: "pods", Namespaced: true}
	query := url.Values{"follow": {"true"}, "tailLines": {tailLines}}
	if container := q.Get("container"); container != "" {
		query.Set("container", container)
	}
	if q.Get("previous") == "true" {
		query.Set("previous", "true")
		query.Del("follow")
	}
	resp, err := s.Cluster.Do(r.Context(), cluster.Request{Path: pods.Path(q.Get("namespace"), q.Get("name"), "log"), Query: query, Accept: "*/*"})
	if err != nil {
		web.Fail(w, err)
		return
	}
	defer resp.Body.Close()
	stream := web.NewStream(w)
	lines := make(chan string, 1024)
	go func() {
		defer close(lines)
		readLines(resp.Body, func(line string) bool {
			select {
			case lines <- line:
				return true
			case <-r.Context().Done():
				return false
			}
		})
	}()
	for {
		line, ok := <-lines
		if !ok {
			_ = stream.Send("end", struct{}{})
			return
		}
		batch := []string{line}
		timer := time.NewTimer(gather)
		for more := true; more && len(batch) < maxBatch; {
			select {
			case line, ok := <-lines:
				if ok {
					batch = append(batch, line)
				} else {
					more = false
				}
			case <-timer.C:
				more = false
			}
		}
		timer.Stop()
		if stream.Send("lines", batch) != nil {
			return
		}
	}
}

// readLines calls each with every line until it returns false or reading fails. It truncates long
// lines.
func readLines(from io.Reader, each func(string) bool) {
	reader := bufio.NewReaderSize(from, maxLine)
	for {
		line, err := reader.ReadSlice('\n')
		text := string(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = reader.ReadSlice('\n')
		}
		if n := len(text); n > 0 && text[n-1] == '\n' {
			text = text[:n-1]
		}
		if (err == nil || text != "") && !each(text) {
			return
		}
		if err != nil {
			return
		}
	}
}
