package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// server is a server under measurement: a kelson serve, or the processes of another.
type server struct {
	ids    []int // of its processes
	config *rest.Config
	client *kubernetes.Clientset

	cmd        *exec.Cmd // kelson serve
	dir        string
	kubeconfig string
}

// serve starts kelson serve with its state in memory and more flags.
func serve(more ...string) (*server, error) {
	dir, err := os.MkdirTemp("", "kelson-bench-nodes-")
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	s := &server{dir: dir, kubeconfig: kubeconfig}
	s.cmd = exec.Command(*kelson, append([]string{"serve", "--in-memory", "--secure-port=0",
		"--kubeconfig=" + kubeconfig}, more...)...)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	s.ids = []int{s.cmd.Process.Pid}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		s.stop()
		return nil, fmt.Errorf("kelson serve: %w", err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	if s.config, s.client, err = connect(kubeconfig); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// connect returns a client of a server that does not limit its rate.
func connect(kubeconfig string) (*rest.Config, *kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	c, err := kubernetes.NewForConfig(config)
	return config, c, err
}

// stop ends kelson serve.
func (s *server) stop() {
	end(s.cmd)
	os.RemoveAll(s.dir)
}

func end(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
}

func (s *server) usage() (usage, error) { return usageOf(s.ids) }

// profile records the server's processor time while a row is measured, and its heap at the end. The
// returned function waits for both.
func (s *server) profile(ctx context.Context, row string) (done func()) {
	if *profiles == "" || s.cmd == nil {
		return func() {}
	}
	save := func(ctx context.Context, path, file string) {
		data, err := s.client.CoreV1().RESTClient().Get().RequestURI(path).DoRaw(ctx)
		if err == nil {
			err = os.WriteFile(filepath.Join(*profiles, row+file), data, 0o644)
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "profile:", err)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		save(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(profileFor.Seconds())), ".cpu")
	}()
	return func() {
		save(ctx, "/debug/pprof/heap?gc=1", ".heap")
		save(ctx, "/debug/pprof/goroutine?debug=1", ".goroutines")
		<-ended
	}
}

// pause waits; it returns an error if ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
