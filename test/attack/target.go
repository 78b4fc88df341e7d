package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// target is a server as its clients see it. It is safe for concurrent use.
type target struct {
	addr string // on this machine
	keys string // folder

	mu      sync.Mutex
	clients map[string]*http.Client
	counts  map[string]int
}

// tls returns the configuration of a user's connections. It does not verify the servers'
// certificates: this program has just started the servers on this machine.
func (t *target) tls(user string) (*tls.Config, error) {
	config := &tls.Config{InsecureSkipVerify: true}
	if user == anonymous {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(t.keys, user+".crt"), filepath.Join(t.keys, user+".key"))
	config.Certificates = []tls.Certificate{pair}
	return config, err
}

// client returns a user's client, which reuses HTTP/1.1 connections: as many as there are
// concurrent requests.
func (t *target) client(user string) (*http.Client, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.clients[user]; c != nil {
		return c, nil
	}
	config, err := t.tls(user)
	if err != nil {
		return nil, err
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: 1000,
		DisableCompression: true}}
	if t.clients == nil {
		t.clients = map[string]*http.Client{}
	}
	t.clients[user] = c
	return c, nil
}

// send sends a request as a user, reads its response, and returns the status. A short response
// becomes part of the error.
func (t *target) send(ctx context.Context, user, method, path, media, body string, headers ...string) (int, error) {
	client, err := t.client(user)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://"+t.addr+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var start bytes.Buffer
	if resp.StatusCode >= 300 {
		_, _ = io.CopyN(&start, resp.Body, 300)
	}
	if _, err = io.Copy(io.Discard, resp.Body); err != nil {
		return resp.StatusCode, err
	}
	if resp.StatusCode >= 300 {
		return resp.StatusCode, fmt.Errorf("%s %.100s: %s: %s", method, path, resp.Status, start.Bytes())
	}
	return resp.StatusCode, nil
}

// create creates objects, each given as a path and a JSON body.
func (t *target) create(ctx context.Context, user string, objects [][2]string) error {
	for _, o := range objects {
		if _, err := t.send(ctx, user, http.MethodPost, o[0], "application/json", o[1]); err != nil {
			return err
		}
	}
	return nil
}

// flood sends requests in several goroutines, one after the other in each, at most limit in total,
// until ctx ends. request returns the i-th.
func (t *target) flood(ctx context.Context, goroutines, limit int,
	request func(i int) (user, method, path, media, body string, headers []string)) {
	var (
		wg   sync.WaitGroup
		next = make(chan int)
	)
	for range goroutines {
		wg.Go(func() {
			for i := range next {
				user, method, path, media, body, headers := request(i)
				status, err := t.send(ctx, user, method, path, media, body, headers...)
				t.count(status, err)
			}
		})
	}
	for i := 0; i < limit && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
}

// count counts a response for the report, by its status, or as missing.
func (t *target) count(status int, err error) {
	what := strconv.Itoa(status)
	if status == 0 && err != nil {
		what = "no response"
	}
	t.record(what)
}

// record adds to a named count of the report.
func (t *target) record(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[what]++
}

// recordMax records the maximum of several numbers for the report.
func (t *target) recordMax(what string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[what] = max(t.counts[what], n)
}

// noted returns the counts.
func (t *target) noted() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for what, n := range t.counts {
		all = append(all, fmt.Sprintf("%d × %s", n, what))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// assault runs an attack and prints its counts. The attacker's process does nothing else.
func assault(ctx context.Context, name string, t *target, d time.Duration) error {
	i := slices.IndexFunc(attacks, func(a attack) bool { return a.name == name })
	if i < 0 {
		return fmt.Errorf("no attack %q", name)
	}
	if host, _, _ := strings.Cut(t.addr, ":"); host != "127.0.0.1" {
		return fmt.Errorf("attack %s: not a loopback address", t.addr)
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := attacks[i].run(ctx, t)
	<-ctx.Done() // connections stay as they are
	fmt.Print(t.noted())
	return err
}

// attacker is the process of an attack.
type attacker struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	kill *time.Timer
}

func (o *options) startAssault(srv *server, a attack) (*attacker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	nice := strconv.Itoa(o.nice)
	if a.equal {
		nice = "0"
	}
	at := &attacker{cmd: exec.Command("nice", "-n", nice, self, "-assault", a.name, "-addr", srv.target.addr, "-keys",
		srv.target.keys,
		"-seconds", strconv.Itoa(o.seconds))}
	at.cmd.Stdout, at.cmd.Stderr = &at.out, &at.out
	at.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := at.cmd.Start(); err != nil {
		return nil, err
	}
	at.kill = time.AfterFunc(time.Duration(o.seconds+5)*time.Second, func() { _ = at.cmd.Process.Kill() })
	return at, nil
}

// end waits for the attacker and returns its output.
func (a *attacker) end() (string, error) {
	defer a.kill.Stop()
	if err := a.cmd.Wait(); err != nil {
		return "", fmt.Errorf("attacker: %w: %s", err, a.out.Bytes())
	}
	return a.out.String(), nil
}
