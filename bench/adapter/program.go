package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kelson.dev/apiserver/pki"
	"kelson.dev/test/child"
)

// figures are the measurements of one run of a program until it was idle.
type figures struct {
	memory, peak float64 // MiB resident, at the end and the maximum
	cpu          float64 // seconds
	reads        float64 // GET requests: lists, watches and single reads
	writes       float64 // other requests
	reconciles   float64
	failed       float64 // reconciles with an error
	seconds      float64 // from the start to the last reconcile
}

type program struct {
	process *child.Process
	metrics string // URL
	token   string // for the metrics; empty: none
	http    *http.Client
	started time.Time
}

// startProgram starts a program and waits until its metrics are served.
func startProgram(ctx context.Context, w workload, dir, executable, kubeconfig, token string) (*program, error) {
	// read it into memory, so that the measurement excludes reading it
	if _, err := os.ReadFile(executable); err != nil {
		return nil, err
	}
	f := flags{kubeconfig: kubeconfig, certs: filepath.Join(dir, "certs"), config: filepath.Join(dir, "config.yaml")}
	for _, port := range []*string{&f.metrics, &f.health, &f.webhook} {
		var err error
		if *port, err = child.FreePort(); err != nil {
			return nil, err
		}
	}
	if err := writeCertificate(f.certs); err != nil {
		return nil, err
	}
	if w.config != nil {
		if err := os.WriteFile(f.config, []byte(w.config(f)), 0o600); err != nil {
			return nil, err
		}
	}
	p := &program{metrics: "http://127.0.0.1:" + f.metrics + "/metrics", token: token, http: http.DefaultClient,
		started: time.Now()}
	if w.secure {
		p.metrics = strings.Replace(p.metrics, "http:", "https:", 1)
		// the programs sign their certificates themselves
		p.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec
	}
	var err error
	p.process, err = child.Start(dir, executable, w.args(f)...)
	if err != nil {
		return nil, err
	}
	return p, p.process.Await(ctx, time.Minute, func(ctx context.Context) error {
		_, err := p.read(ctx)
		return err
	})
}

// writeCertificate writes the certificate that the webhook server needs; no webhook is called.
func writeCertificate(dir string) error {
	authority, err := pki.NewAuthority("bench")
	if err != nil {
		return err
	}
	pair, err := authority.Server("localhost")
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "tls.crt"), pair.CertPEM, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), pair.KeyPEM, 0o600))
}

// quiet is how long a program must send no requests before it counts as idle.
const quiet = 5 * time.Second

// waitIdle waits until the program no longer reconciles or sends requests.
func (p *program) waitIdle(ctx context.Context) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	var last figures
	since := time.Now()
	for {
		now, err := p.read(ctx)
		if err != nil {
			return now, err
		}
		if now.reconciles != last.reconciles || now.writes != last.writes {
			last, since = now, time.Now()
			last.seconds = since.Sub(p.started).Seconds()
		}
		if time.Since(since) > quiet && last.reconciles > 0 {
			now.seconds = last.seconds
			return now, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-p.process.Done:
			return now, fmt.Errorf("program ended:\n%s", p.process.Output())
		case <-ctx.Done():
			return now, fmt.Errorf("program does not become idle: %w", ctx.Err())
		}
	}
}

// read reads the figures up to now.
func (p *program) read(ctx context.Context) (figures, error) {
	var f figures
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.metrics, nil)
	if err != nil {
		return f, err
	}
	if p.token != "" {
		req.Header.Set("Authorization", "Bearer "+p.token)
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return f, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return f, fmt.Errorf("read %s: %s", p.metrics, resp.Status)
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), "} ")
		value, _ := strconv.ParseFloat(text, 64)
		switch {
		case strings.HasPrefix(name, "controller_runtime_reconcile_total{"):
			f.reconciles += value
			if strings.Contains(name, `result="error"`) {
				f.failed += value
			}
		case strings.HasPrefix(name, "rest_client_requests_total{") && strings.Contains(name, `method="GET"`):
			f.reads += value
		case strings.HasPrefix(name, "rest_client_requests_total{"):
			f.writes += value
		}
	}
	u, err := child.UsageOf(p.process.ID)
	f.memory, f.peak, f.cpu = float64(u.Resident)/(1<<20), float64(u.Peak)/(1<<20), u.CPU.Seconds()
	return f, err
}
