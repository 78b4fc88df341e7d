package operatortest

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// ErrNoKelson means that the kelson binary was not found.
var ErrNoKelson = errors.New("no kelson binary: set KELSON to the path of the binary, or put it in PATH")

// server is the kelson process that the tests of this process share.
type server struct {
	url    string
	client *http.Client
	// kelson exits when it is closed, which happens only at the end of this process
	stdin  io.Closer
	stderr *tail

	mu    sync.Mutex
	bases map[string]bool // names of the saved states
}

// There is one server per process, because starting one costs more than all planes of most tests. A
// server that may run processes on this machine is started only if a test requests that.
var (
	peaceful  = sync.OnceValues(func() (*server, error) { return startServer(NodeNone) })
	executing = sync.OnceValues(func() (*server, error) { return startServer(NodeProcess) })
)

func serverFor(node Node) (*server, error) {
	if node == NodeProcess {
		return executing()
	}
	return peaceful()
}

const (
	maxPlanes = 10_000
	startTime = 2 * time.Minute // for the binary to report that it serves
)

// binary finds the kelson binary.
func binary() (string, error) {
	if path := os.Getenv("KELSON"); path != "" {
		path, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("%w: KELSON: %w", ErrNoKelson, err)
		}
		return filepath.Abs(path)
	}
	path, err := exec.LookPath("kelson")
	if err != nil {
		return "", ErrNoKelson
	}
	return path, nil
}

func startServer(node Node) (_ *server, err error) {
	path, err := binary()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "operatortest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	kubeconfig := filepath.Join(dir, "kubeconfig")

	s := &server{stderr: &tail{}, bases: map[string]bool{}}
	cmd := exec.Command(path, "serve", "--in-memory", "--secure-port=0", "--kubeconfig="+kubeconfig,
		"--node="+string(node),
		fmt.Sprintf("--planes=%d", maxPlanes), "--planes-idle=0", "--exit-with-stdin")
	if node == NodeProcess {
		// pods are the test's own and may use its files
		cmd.Args = append(cmd.Args, "--run-pods-unconfined-as-this-user")
	}
	cmd.Stderr = s.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	s.stdin = stdin
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	ready := make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err == nil && !strings.HasPrefix(line, "kelson serves ") {
			err = fmt.Errorf("its first line is %q", line)
		}
		if err == nil {
			ready <- nil
		} else {
			_ = cmd.Process.Kill()
		}
		_, _ = io.Copy(io.Discard, stdout)
		if ended := cmd.Wait(); err != nil {
			ready <- cmp.Or(ended, err) // only now is its output complete
		}
	}()
	select {
	case err = <-ready:
	case <-time.After(startTime):
		err = fmt.Errorf("it does not serve after %s", startTime)
	}
	if err == nil {
		err = s.connect(kubeconfig)
	}
	if err != nil {
		stdin.Close()
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("start %s serve: %w%s", path, err, s.stderr.report())
	}
	return s, nil
}

func (s *server) connect(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	s.url = config.Host
	s.client, err = rest.HTTPClientFor(config)
	return err
}

// tail keeps the last bytes written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if over := len(t.data) - tailSize; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

// report returns the output, formatted for an error message.
func (t *tail) report() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.data) == 0 {
		return ""
	}
	return "\noutput of kelson:\n" + strings.TrimSpace(string(t.data))
}
