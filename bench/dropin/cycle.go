package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"kelson.dev/test/child"
)

func startEnvtest(assets string) (*envtest.Environment, time.Duration, error) {
	env := &envtest.Environment{BinaryAssetsDirectory: assets}
	began := time.Now()
	_, err := env.Start()
	return env, time.Since(began), err
}

// ownTime starts and stops the two servers that envtest runs a second time, on other ports, with a
// health check every millisecond. As envtest does, it first runs both programs with --help.
func ownTime(ctx context.Context) (start, stop time.Duration, err error) {
	servers, err := childProcesses()
	if err != nil {
		return 0, 0, err
	}
	etcd, apiserver := servers["etcd"], servers["kube-apiserver"]
	if etcd.args == nil || apiserver.args == nil {
		return 0, 0, fmt.Errorf("envtest runs no etcd and kube-apiserver: %v", servers)
	}
	dir, err := os.MkdirTemp("", "kelson-dropin-")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	var ports [3]string
	for i := range ports {
		if ports[i], err = child.FreePort(); err != nil {
			return 0, 0, err
		}
	}
	etcdURL := "http://127.0.0.1:" + ports[0]
	etcdArgs := with(etcd.args, map[string]string{"listen-client-urls": etcdURL, "advertise-client-urls": etcdURL,
		"listen-peer-urls": "http://127.0.0.1:" + ports[1], "data-dir": filepath.Join(dir, "etcd")})
	apiArgs := with(apiserver.args, map[string]string{"etcd-servers": etcdURL, "secure-port": ports[2]})

	began := time.Now()
	first, err := launch(ctx, etcdArgs, etcdURL+"/health")
	if err != nil {
		return 0, 0, err
	}
	defer first.kill()
	second, err := launch(ctx, apiArgs, "https://127.0.0.1:"+ports[2]+"/healthz")
	if err != nil {
		return 0, 0, err
	}
	defer second.kill()
	start, began = time.Since(began), time.Now()
	for _, s := range []*server{second, first} {
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return 0, 0, err
		}
		var exit *exec.ExitError // the signal ends etcd
		if err := s.cmd.Wait(); err != nil && !errors.As(err, &exit) {
			return 0, 0, fmt.Errorf("stop %s: %w", s.cmd.Path, err)
		}
	}
	return start, time.Since(began), nil
}

// with returns a command line with other values of some flags.
func with(args []string, values map[string]string) []string {
	changed := []string{args[0]}
	for _, arg := range args[1:] {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if value, ok := values[name]; ok {
			arg = "--" + name + "=" + value
		}
		changed = append(changed, arg)
	}
	return changed
}

type server struct{ cmd *exec.Cmd }

func (s *server) kill() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// launch runs a program with --help, starts it, and waits until url responds.
func launch(ctx context.Context, args []string, url string) (*server, error) {
	if err := exec.CommandContext(ctx, args[0], "--help").Run(); err != nil {
		return nil, fmt.Errorf("%s --help: %w", args[0], err)
	}
	s := &server{exec.CommandContext(ctx, args[0], args[1:]...)}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true}}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		resp, err := client.Get(url)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return s, nil
			}
		}
		if time.Now().After(end) {
			s.kill()
			return nil, fmt.Errorf("%s does not answer: %w", url, err)
		}
	}
}
