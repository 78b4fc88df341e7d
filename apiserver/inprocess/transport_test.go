package inprocess_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/inprocess"
	"kelson.dev/internal/require"
)

func client(h http.HandlerFunc) *http.Client {
	return &http.Client{Transport: &inprocess.Transport{Handler: h}}
}

func TestResponse(t *testing.T) {
	c := client(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Path", r.URL.Path)
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("X-Late", "not seen")
		fmt.Fprintf(w, "got %s", body)
	})
	resp, err := c.Post("http://plane/a/b", "text/plain", strings.NewReader("hello"))
	require.NoError(t, err)
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-Path") != "/a/b" || resp.Header.Get("X-Late") != "" ||
		string(body) != "got hello" {
		t.Fatalf("got %d %v %q", resp.StatusCode, resp.Header, body)
	}
}

// A stream delivers each line when the handler flushes it, in virtual time. Closing the body
// cancels the request.
func TestStreamAndCancelInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		c := client(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			for i := 0; ; i++ {
				fmt.Fprintln(w, i)
				w.(http.Flusher).Flush()
				select {
				case <-time.After(time.Hour):
				case <-r.Context().Done():
					return
				}
			}
		})
		resp, err := c.Get("http://plane/watch")
		require.NoError(t, err)
		lines := bufio.NewScanner(resp.Body)
		for want := range 3 {
			if !lines.Scan() || lines.Text() != fmt.Sprint(want) {
				t.Fatalf("line %d: %q %v", want, lines.Text(), lines.Err())
			}
		}
		resp.Body.Close()
		<-ended
	})
}

func TestContextErrorEndsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := client(func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://plane/", nil)
		resp, err := c.Do(req)
		require.NoError(t, err)
		if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("read: %v", err)
		}
		resp.Body.Close()
	})
}

func TestWriterWaitsForSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrote := 0
		chunk := bytes.Repeat([]byte("x"), 100<<10)
		c := client(func(w http.ResponseWriter, r *http.Request) {
			for range 10 {
				n, _ := w.Write(chunk)
				wrote += n
			}
		})
		resp, err := c.Get("http://plane/")
		require.NoError(t, err)
		synctest.Wait()
		if wrote > 512<<10 {
			t.Fatalf("the handler is %d bytes ahead of a client that reads nothing", wrote)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		if err != nil || n != 1000<<10 {
			t.Fatalf("read %d, %v", n, err)
		}
		resp.Body.Close()
	})
}

func TestAbortedHandlerIsUnexpectedEOF(t *testing.T) {
	c := client(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	})
	resp, err := c.Get("http://plane/")
	require.NoError(t, err)
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("read: %v", err)
	}
}
