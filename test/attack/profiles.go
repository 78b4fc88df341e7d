package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// profile writes a processor profile, and then an execution trace, of a server that is attacked to
// the folder of -profiles, without waiting for them. Both slow the server down a little.
func (o *options) profile(ctx context.Context, srv *server, a attack) {
	if o.profiles == "" {
		return
	}
	go func() {
		sleep(ctx, time.Second)
		seconds := max(2, o.seconds/2-2)
		for _, p := range [][2]string{{"profile", fmt.Sprint(seconds)}, {"trace", "2"}} {
			file := filepath.Join(o.profiles, a.name+"."+p[0])
			if err := srv.target.save(ctx, "/debug/pprof/"+p[0]+"?seconds="+p[1], file); err != nil {
				fmt.Fprintln(os.Stderr, "attack: profile:", err)
			}
		}
	}()
}

// save writes the response to a request of the administrator to a file.
func (t *target) save(ctx context.Context, path, file string) error {
	client, err := t.client(admin)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+t.addr+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}
