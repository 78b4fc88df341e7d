package replay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/pki"
	"kelson.dev/lab/agent"
	"kelson.dev/lab/agent/inside"
	"kelson.dev/lab/history"

	// its init lets Kubernetes' libraries report errors in bubbles without a delay
	_ "kelson.dev/lab/testenv"
)

// Order describes the replay that Drive runs.
type Order struct {
	History  string // file or directory
	Managers []string
	From, To time.Time
	Quiet    time.Duration
	// Speed is the maximum ratio of virtual time to real time; 0 means as fast as possible.
	Speed float64
}

// Drive replays a history with an operator that agent.Program has built: the program is the file,
// with its arguments, and dir its working directory. Drive may be called once in a process: from
// then on, the process has one processor. When ctx ends, Drive returns, and the replay stops with
// the process.
func Drive(ctx context.Context, order Order, program, dir string, args []string) (*Result, error) {
	temp, err := os.MkdirTemp("", "kelson-replay-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	kubeconfig := filepath.Join(temp, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(agent.Kubeconfig), 0o600); err != nil {
		return nil, err
	}
	if err := writeCertificate(filepath.Join(temp, "k8s-webhook-server", "serving-certs")); err != nil {
		return nil, err
	}
	// With these, a program would look for the API server of its Pod.
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "KUBERNETES_SERVICE_") })
	runtime.GOMAXPROCS(1) // agent.Clock needs it
	process, err := agent.Start(agent.Config{Path: program, Dir: dir, Args: args,
		Env: append(env, "KUBECONFIG="+kubeconfig, "TMPDIR="+temp)})
	if err != nil {
		return nil, err
	}
	var result *Result
	err = errors.New("the replay has failed")
	ended := make(chan struct{})
	go inside.InTest(func(t *testing.T) {
		defer func() {
			close(ended)
			select {} // the end of the test would end the process
		}()
		result, err = drive(t, order, process)
	})
	select {
	case <-ended:
		return result, err
	case <-ctx.Done():
		process.Kill()
		return nil, ctx.Err()
	}
}

// writeCertificate writes a certificate for webhooks to a folder. No webhook is called, but
// controller-runtime ends without the files, which it expects below TMPDIR.
func writeCertificate(dir string) error {
	authority, err := pki.NewAuthority("kelson-replay")
	if err != nil {
		return err
	}
	pair, err := authority.Server("localhost")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "tls.crt"), pair.CertPEM, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), pair.KeyPEM, 0o600))
}

func drive(t *testing.T, order Order, process *agent.Process) (result *Result, err error) {
	h, err := history.Open(order.History)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	cfg := Config{History: h, Program: process, Managers: order.Managers, From: order.From, To: order.To,
		Quiet: order.Quiet}
	if order.Speed > 0 {
		pace, stop := newPace(order.Speed)
		defer stop()
		cfg.Pace = pace
	}
	synctest.Test(t, func(t *testing.T) { result, err = Run(context.Background(), cfg) })
	return result, err
}

// newPace returns a Config.Pace for a speed. Real time passes in a goroutine outside of the bubble:
// virtual time stands still while the bubble waits for it.
func newPace(speed float64) (pace func(time.Duration), stop func()) {
	request, done := make(chan time.Duration), make(chan struct{})
	go func() {
		for d := range request {
			time.Sleep(time.Duration(float64(d) / speed))
			done <- struct{}{}
		}
	}()
	pace = func(d time.Duration) {
		request <- d
		<-done
	}
	return pace, func() { close(request) }
}
