package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// inventedLabels requests 2,500 resources with long invented names, which the server rejects before
// authorization, and scrapes /metrics.
func inventedLabels(ctx context.Context, t *target) error {
	go t.scrape(ctx)
	name := strings.Repeat("n", 200_000)
	t.flood(ctx, 8, 2_500, func(i int) (string, string, string, string, string, []string) {
		return anonymous, http.MethodGet, fmt.Sprintf("/apis/g%d/v1/%s", i, name), "", "",
			[]string{"Impersonate-Uid", "1"}
	})
	return nil
}

// inventedNames sends at most 50,000 requests with names that no earlier request had.
func inventedNames(ctx context.Context, t *target) error {
	go t.scrape(ctx)
	t.flood(ctx, 16, 50_000, func(i int) (string, string, string, string, string, []string) {
		switch i % 6 {
		case 0:
			return anonymous, http.MethodGet, fmt.Sprintf("/apis/g%d/v%d/r%d", i, i, i), "", "", nil
		case 1:
			return norole, http.MethodGet, fmt.Sprintf("/api/v1/namespaces/n%d/configmaps/c%d", i, i), "", "", nil
		case 2:
			return norole, fmt.Sprintf("M%d", i), fmt.Sprintf("/api/v1/namespaces/n%d/r%d/o/s%d", i, i, i), "", "", nil
		case 3:
			return anonymous, http.MethodGet, "/api/v1/namespaces", "", "",
				[]string{"Authorization", fmt.Sprintf("Bearer t%d", i)}
		case 4:
			return norole, http.MethodGet, "/api/v1/namespaces", "", "",
				[]string{"Impersonate-User", fmt.Sprintf("u%d", i)}
		default:
			return norole, http.MethodPost, selfReview, fmt.Sprintf("application/m%d", i), "{}",
				[]string{"User-Agent", fmt.Sprintf("a%d", i)}
		}
	})
	return nil
}

// scrape reads /metrics every two seconds until ctx ends, at most 64 MiB of it, and records the
// size of the largest scrape.
func (t *target) scrape(ctx context.Context) {
	client, err := t.client(admin)
	if err != nil {
		return
	}
	for range 30 {
		sleep(ctx, 2*time.Second)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+t.addr+"/metrics", nil)
		if err != nil {
			return
		}
		resp, err := client.Do(req)
		if err != nil {
			continue
		}
		n, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<20))
		resp.Body.Close()
		if err == nil {
			t.recordMax("kB in a scrape", int(n/1000))
		}
	}
}
