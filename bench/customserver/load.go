package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// clients is how many clients load a server at once, each with its own HTTP/2 connection. A client
// sends one request after the other and does not decode responses, so that the figures are those of
// the servers. bench/figures does the same.
const clients = 16

// loads measures requests per second and the server's processor time for each request.
func loads(ctx context.Context, config *rest.Config, server int, figures map[string]float64) error {
	settings, err := rest.TLSConfigFor(config)
	if err != nil {
		return err
	}
	var crowd [clients]*http.Client
	for i := range crowd {
		transport := &http.Transport{TLSClientConfig: settings.Clone(), ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		crowd[i] = &http.Client{Transport: transport}
	}
	collection := config.Host + "/apis/wardle.example.com/v1alpha1/namespaces/default/flunders"
	measure := func(name string, d time.Duration, crowd []*http.Client, send func(c *http.Client, n int64) error) (err error) {
		before, err := processorTime(server)
		if err != nil {
			return err
		}
		var (
			done   atomic.Int64
			failed atomic.Pointer[error]
			group  sync.WaitGroup
			begun  = time.Now()
		)
		for _, c := range crowd {
			group.Go(func() {
				for time.Since(begun) < d && failed.Load() == nil {
					if err := send(c, done.Add(1)); err != nil {
						failed.Store(&err)
					}
				}
			})
		}
		group.Wait()
		if err := failed.Load(); err != nil {
			return fmt.Errorf("%s: %w", name, *err)
		}
		took := time.Since(begun)
		after, err := processorTime(server)
		if err != nil {
			return err
		}
		figures[name+perSecond] = float64(done.Load()) / took.Seconds()
		figures[name+processor] = float64((after - before).Microseconds()) / float64(done.Load())
		return nil
	}
	err = measure(loadCreate, 4*time.Second, crowd[:], func(c *http.Client, n int64) error {
		body, err := json.Marshal(flunder(fmt.Sprint("l", n)).Object)
		if err != nil {
			return err
		}
		return send(ctx, c, http.MethodPost, collection, string(body))
	})
	if err != nil {
		return err
	}
	err = measure(loadGet, 4*time.Second, crowd[:], func(c *http.Client, n int64) error {
		return send(ctx, c, http.MethodGet, fmt.Sprint(collection, "/a", n%int64(*objects)), "")
	})
	if err != nil {
		return err
	}
	return measure(loadList, 4*time.Second, crowd[:1], func(c *http.Client, _ int64) error {
		return send(ctx, c, http.MethodGet, collection+"?labelSelector=new%21%3Dyes", "")
	})
}

// send sends a request and reads the response to its end.
func send(ctx context.Context, c *http.Client, method, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, text)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// processorTime returns the processor time that a process has used.
func processorTime(id int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return 0, err
	}
	// user and system time, in hundredths of a second, are fields 14 and 15; the name in
	// parentheses is field 2
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
