package objects

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// maxPods bounds the pods whose logs are read together.
const maxPods = 20

var podKind = cluster.Kind{Version: "v1", Resource: "pods", Namespaced: true}

// logs streams the lines of a container's log as events named lines. With the parameter selector
// instead of name, it streams those of all pods with these labels, each line after the name of its
// pod; pods that are created later are not among them.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	names, more, err := s.podsOf(r)
	if err != nil {
		web.Fail(w, err)
		return
	}
	lines := make(chan string, 1024)
	var streams sync.WaitGroup
	for _, name := range names {
		log, err := s.openLog(r, name, true)
		prefix := ""
		if r.URL.Query().Has("selector") {
			prefix = name + " │ "
		} else if err != nil {
			web.Fail(w, err)
			return
		}
		streams.Go(func() {
			if err != nil { // the others have logs
				log = io.NopCloser(strings.NewReader(err.Error()))
			}
			defer log.Close()
			readLines(log, func(line string) bool {
				select {
				case lines <- prefix + line:
					return true
				case <-r.Context().Done():
					return false
				}
			})
		})
	}
	go func() {
		streams.Wait()
		close(lines)
	}()
	stream := web.NewStream(w)
	if r.URL.Query().Has("selector") && stream.Send("pods", map[string]any{"pods": names, "more": more}) != nil {
		return
	}
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

// podsOf returns the names of the pods of a request, and how many more have its labels.
func (s *Server) podsOf(r *http.Request) (names []string, more int, err error) {
	q := r.URL.Query()
	if !q.Has("selector") {
		return []string{q.Get("name")}, 0, nil
	}
	var list struct {
		Items []metav1.PartialObjectMetadata
	}
	if err := s.Cluster.Get(r.Context(), cluster.Request{
		Path: podKind.Path(q.Get("namespace"), ""), Query: url.Values{"labelSelector": {q.Get("selector")}},
	}, &list); err != nil {
		return nil, 0, err
	}
	for _, pod := range list.Items {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	more = max(0, len(names)-maxPods)
	return names[:len(names)-more], more, nil
}

// openLog begins to read the log of a pod.
func (s *Server) openLog(r *http.Request, name string, follow bool) (io.ReadCloser, error) {
	q := r.URL.Query()
	query := url.Values{}
	for _, parameter := range []string{"container", "previous", "timestamps"} {
		if value := q.Get(parameter); value != "" {
			query.Set(parameter, value)
		}
	}
	if follow {
		query.Set("tailLines", tailLines)
		if q.Get("previous") != "true" {
			query.Set("follow", "true")
		}
	}
	resp, err := s.Cluster.Do(r.Context(), cluster.Request{
		Path: podKind.Path(q.Get("namespace"), name, "log"), Query: query, Accept: "*/*",
	})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// logFile responds with the complete logs of the same pods as logs, as a file to download.
func (s *Server) logFile(w http.ResponseWriter, r *http.Request) {
	names, _, err := s.podsOf(r)
	if err != nil {
		web.Fail(w, err)
		return
	}
	control := http.NewResponseController(w)
	for i, name := range names {
		log, err := s.openLog(r, name, false)
		if err != nil && i == 0 && len(names) == 1 {
			web.Fail(w, err)
			return
		}
		if i == 0 {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Content-Disposition",
				mime.FormatMediaType("attachment", map[string]string{"filename": name + ".log"}))
		}
		if len(names) > 1 {
			fmt.Fprintf(w, "==> %s <==\n", name)
		}
		if err != nil {
			fmt.Fprintln(w, err)
			continue
		}
		// Long logs take longer than other responses.
		_ = control.SetWriteDeadline(time.Now().Add(downloadWithin))
		_, err = io.Copy(w, log)
		log.Close()
		if err != nil {
			return
		}
	}
}

// downloadWithin bounds the time for the log of one pod.
const downloadWithin = 10 * time.Minute

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
