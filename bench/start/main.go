// Command start compares how soon a control plane answers and what it weighs idle: Kelson against kube-apiserver with etcd, all on
// this machine, in one run, one after the other. It prints a table of medians and the ratios.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	kelson := flag.String("kelson", "bin/kelson", "the kelson binary")
	peers := flag.String("peers", "bin/peers", "folder with etcd and kube-apiserver")
	rounds := flag.Int("rounds", 5, "rounds; the table shows medians")
	idle := flag.Duration("idle", 5*time.Second, "how long a plane is left alone before its memory is read")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := compare(ctx, *kelson, *peers, *rounds, *idle); err != nil {
		fmt.Fprintln(os.Stderr, "start:", err)
		os.Exit(1)
	}
}

// figures are one round of one side.
type figures struct {
	ready time.Duration // process start → /readyz
	rss   int64         // bytes resident, idle, all processes of the side
}

func compare(ctx context.Context, kelson, peers string, rounds int, idle time.Duration) error {
	var theirs, durable, memory []figures
	for round := range rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
		for _, side := range []struct {
			into *[]figures
			run  func(context.Context, string) (figures, error)
		}{
			{&theirs, func(ctx context.Context, dir string) (figures, error) { return runPeers(ctx, peers, dir, idle) }},
			{&durable, func(ctx context.Context, dir string) (figures, error) {
				return runKelson(ctx, kelson, dir, idle, "--data-dir", filepath.Join(dir, "data"))
			}},
			{&memory, func(ctx context.Context, dir string) (figures, error) {
				return runKelson(ctx, kelson, dir, idle, "--in-memory")
			}},
		} {
			dir, err := os.MkdirTemp("", "kelson-bench-")
			if err != nil {
				return err
			}
			f, err := side.run(ctx, dir)
			os.RemoveAll(dir)
			if err != nil {
				return err
			}
			*side.into = append(*side.into, f)
		}
	}
	inProcess, err := startInProcess(ctx, 4*rounds)
	if err != nil {
		return err
	}

	ready := func(fs []figures) time.Duration {
		return median(fs, func(f figures) time.Duration { return f.ready })
	}
	rss := func(fs []figures) int64 { return median(fs, func(f figures) int64 { return f.rss }) }
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Printf("%s, %d CPUs, %s, median of %d rounds\n", runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU(), runtime.Version(), rounds)
	fmt.Fprintln(out, "what\tkube-apiserver + etcd\tkelson, durable\tratio\tkelson, in memory\tratio\t")
	fmt.Fprintf(out, "process start → /readyz\t%s\t%s\t%.0f×\t%s\t%.0f×\t\n", show(ready(theirs)),
		show(ready(durable)), ratio(ready(theirs), ready(durable)), show(ready(memory)), ratio(ready(theirs), ready(memory)))
	fmt.Fprintf(out, "in-process start → first answer\t%s\t\t\t%s\t%.0f×\t\n", show(ready(theirs)),
		show(inProcess), ratio(ready(theirs), inProcess))
	fmt.Fprintf(out, "resident memory idle\t%d MiB\t%d MiB\t%.1f×\t%d MiB\t%.1f×\t\n", rss(theirs)>>20,
		rss(durable)>>20, ratio(rss(theirs), rss(durable)), rss(memory)>>20, ratio(rss(theirs), rss(memory)))
	return out.Flush()
}

func runKelson(ctx context.Context, binary, dir string, idle time.Duration, state ...string) (figures, error) {
	port, err := freePort()
	if err != nil {
		return figures{}, err
	}
	begin := time.Now()
	args := append([]string{"serve", "--node=none", "--secure-port", port, "--kubeconfig", filepath.Join(dir, "kubeconfig")}, state...)
	p, err := start(dir, binary, args...)
	if err != nil {
		return figures{}, err
	}
	defer p.stop()
	if err := p.answers(ctx, "https://127.0.0.1:"+port+"/readyz"); err != nil {
		return figures{}, err
	}
	f := figures{ready: time.Since(begin)}
	time.Sleep(idle)
	f.rss, err = p.resident()
	return f, err
}

func runPeers(ctx context.Context, binaries, dir string, idle time.Duration) (figures, error) {
	ports := [3]string{}
	for i := range ports {
		var err error
		if ports[i], err = freePort(); err != nil {
			return figures{}, err
		}
	}
	key := filepath.Join(dir, "service-account.key")
	if err := writeKey(key); err != nil {
		return figures{}, err
	}
	begin := time.Now()
	etcdURL := "http://127.0.0.1:" + ports[0]
	etcd, err := start(dir, filepath.Join(binaries, "etcd"),
		"--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL,
		"--listen-peer-urls", "http://127.0.0.1:"+ports[1], "--log-level", "error")
	if err != nil {
		return figures{}, err
	}
	defer etcd.stop()
	api, err := start(dir, filepath.Join(binaries, "kube-apiserver"),
		"--etcd-servers", etcdURL, "--bind-address", "127.0.0.1", "--secure-port", ports[2], "--cert-dir", filepath.Join(dir, "certs"),
		"--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.0.0.0/24", "--disable-admission-plugins", "ServiceAccount",
		"--service-account-issuer", "https://localhost", "--service-account-key-file", key, "--service-account-signing-key-file", key)
	if err != nil {
		return figures{}, err
	}
	defer api.stop()
	if err := api.answers(ctx, "https://127.0.0.1:"+ports[2]+"/readyz"); err != nil {
		return figures{}, err
	}
	f := figures{ready: time.Since(begin)}
	time.Sleep(idle)
	for _, p := range []*process{etcd, api} {
		rss, err := p.resident()
		if err != nil {
			return figures{}, err
		}
		f.rss += rss
	}
	return f, nil
}

// process is a server under measurement. Its output is kept for when it fails.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

func start(dir, binary string, args ...string) (*process, error) {
	log, err := os.Create(filepath.Join(dir, filepath.Base(binary)+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{cmd: exec.Command(binary, args...), log: log.Name(), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	go func() { p.cmd.Wait(); close(p.done) }()
	return p, nil
}

func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		p.cmd.Process.Kill()
		<-p.done
	}
}

// answers waits until url answers 200.
func (p *process) answers(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	// The peer makes its serving certificate itself; nothing secret is sent to it.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-p.done:
			output, _ := os.ReadFile(p.log)
			return fmt.Errorf("%s ended before it was ready:\n%s", p.cmd.Path, output)
		case <-ctx.Done():
			output, _ := os.ReadFile(p.log)
			return fmt.Errorf("%s: %w\n%s", url, ctx.Err(), output)
		}
	}
}

// resident is the process's resident memory in bytes.
func (p *process) resident() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("no VmRSS of process %d", p.cmd.Process.Pid)
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

func writeKey(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

type number interface{ ~int64 }

func median[N number](fs []figures, of func(figures) N) N {
	var all []N
	for _, f := range fs {
		all = append(all, of(f))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func ratio[N number](theirs, ours N) float64 { return float64(theirs) / float64(ours) }

func show(d time.Duration) string {
	if d < 100*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
