package serve

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// namedOptions are the flags of servers with a name.
type namedOptions struct {
	name   string
	detach bool
}

func (o *namedOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.name, "name", "", "name of the server, for kelson list and kelson stop; it has a data directory of its own, and by default a free port")
	f.BoolVar(&o.detach, "detach", false, "run in the background: return when the server is ready, and print how to reach it; without --name, its name is "+defaultName)
}

// defaultName is the name of detached servers without --name.
const defaultName = "default"

// validName matches names of servers, which are also names of folders.
var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ErrNotRunning is returned for names of servers that do not run.
var ErrNotRunning = errors.New("not running")

// Record describes a running server with a name. It is a file in the folder of the server, which
// only its user can read.
type Record struct {
	Name       string    `json:"name"`
	URL        string    `json:"url"`
	Kubeconfig string    `json:"kubeconfig"`
	Console    string    `json:"console,omitempty"`
	Log        string    `json:"log,omitempty"` // of a detached server
	PID        int       `json:"pid"`
	Started    time.Time `json:"started"`
	// Control is the address, on loopback, of the handler that stops the server. Requests need the
	// token. A server runs exactly if it answers there, so a record of a killed server is harmless.
	Control string `json:"control"`
	Token   string `json:"token"`
}

// serversDir returns the folder with the folders of named servers.
func serversDir() (string, error) {
	dir := DefaultDataDir()
	if dir == "" {
		return "", ErrNoDataDir
	}
	return filepath.Join(filepath.Dir(dir), "kelson-servers"), nil
}

// folderOf returns the folder of a named server, which has its record, log and state.
func folderOf(name string) (string, error) {
	if !validName.MatchString(name) {
		return "", fmt.Errorf("server %q: the name may have lower-case letters, digits and hyphens", name)
	}
	dir, err := serversDir()
	return filepath.Join(dir, name), err
}

const (
	recordFile = "server.json"
	logFile    = "log"
	stateDir   = "state"
)

func readRecord(name string) (*Record, error) {
	dir, err := folderOf(name)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return nil, err
	}
	r := new(Record)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, recordFile), err)
	}
	return r, nil
}

// controlTimeout bounds requests to the control of a server, which answers at once.
const controlTimeout = time.Minute

// control sends a request to the control of the server.
func (r *Record) control(ctx context.Context, method string) error {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.Control+"/", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+r.Token)
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return fmt.Errorf("server %q: %w", r.Name, ErrNotRunning)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK { // another program has the port now
		return fmt.Errorf("server %q: %w", r.Name, ErrNotRunning)
	}
	return nil
}

// Running returns the server with a name, or an error that is ErrNotRunning.
func Running(ctx context.Context, name string) (*Record, error) {
	r, err := readRecord(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("server %q: %w", name, ErrNotRunning)
	case err != nil:
		return nil, err
	}
	return r, r.control(ctx, http.MethodGet)
}

// Named returns the names of all servers that were started with a name, sorted.
func Named() ([]string, error) {
	dir, err := serversDir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && validName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// stopPause is the time between two checks of whether a server has stopped.
const stopPause = 20 * time.Millisecond

// stopNamed asks a server to stop, and waits until it has.
func stopNamed(ctx context.Context, name string) error {
	r, err := Running(ctx, name)
	if err != nil {
		return err
	}
	if err := r.control(ctx, http.MethodDelete); err != nil {
		return err
	}
	// the server removes its record when everything is closed
	for {
		if now, err := readRecord(name); err != nil || now.Token != r.Token {
			return nil
		}
		if errors.Is(r.control(ctx, http.MethodGet), ErrNotRunning) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(stopPause):
		}
	}
}

// registration is the registered name of this process.
type registration struct {
	listener net.Listener
	file     string
}

// register begins to answer as the server of a record, and writes the record. stop is called when
// kelson stop asks the server to end. The caller must call end after the server has ended.
func register(r Record, stop func()) (*registration, error) {
	dir, err := folderOf(r.Name)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r.Control, r.Token = listener.Addr().String(), rand.Text()
	server := &http.Server{ReadHeaderTimeout: controlTimeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if subtle.ConstantTimeCompare([]byte(req.Header.Get("Authorization")), []byte("Bearer "+r.Token)) != 1 {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			if req.Method == http.MethodDelete {
				stop()
			}
		})}
	go func() { _ = server.Serve(listener) }() // ends with the listener
	g := &registration{listener, filepath.Join(dir, recordFile)}
	data, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = replaceFile(g.file, data)
	}
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("server %q: write record: %w", r.Name, err)
	}
	return g, nil
}

// replaceFile writes a file atomically that only its owner can read. The folder must exist.
func replaceFile(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// end removes the record.
func (g *registration) end() {
	if g != nil {
		os.Remove(g.file)
		g.listener.Close()
	}
}

// prepare sets the defaults of a server with a name. given reports whether the command line sets a
// flag.
func (o *Options) prepare(ctx context.Context, given func(flag string) bool) error {
	if o.named.detach && o.named.name == "" {
		o.named.name = defaultName
	}
	name := o.named.name
	if name == "" {
		return nil
	}
	dir, err := folderOf(name)
	if err != nil {
		return fmt.Errorf("--name: %w", err)
	}
	if r, err := Running(ctx, name); err == nil {
		return fmt.Errorf("server %q runs already, at %s; end it with kelson stop %s, or choose another --name", name,
			r.URL, name)
	}
	if !given("data-dir") && !o.state.inMemory && len(o.state.etcd.Servers) == 0 && o.state.past.at == "" {
		o.state.dataDir = filepath.Join(dir, stateDir)
	}
	if !given("kubeconfig") {
		o.Kubeconfig = filepath.Join(dir, "kubeconfig")
	}
	if !given("secure-port") {
		o.SecurePort = 0
	}
	return os.MkdirAll(dir, 0o700)
}

// withoutDetach returns the arguments of the process without the flag --detach.
func withoutDetach(args []string) []string {
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	kept := slices.DeleteFunc(slices.Clone(args[:end]), func(a string) bool {
		return a == "--detach" || strings.HasPrefix(a, "--detach=")
	})
	return append(kept, args[end:]...)
}
