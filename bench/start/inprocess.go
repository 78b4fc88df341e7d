package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"kelson.dev/server/controlplane"
)

// startInProcess is the median time from the call of Start to the first answer, in this process, which is warm after the first.
func startInProcess(ctx context.Context, rounds int) (time.Duration, error) {
	var all []time.Duration
	for range rounds {
		begin := time.Now()
		plane, err := controlplane.Start(ctx, controlplane.Config{})
		if err != nil {
			return 0, err
		}
		client := &http.Client{Transport: plane.Transport()}
		resp, err := client.Get("http://plane/api/v1/namespaces/default")
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		all = append(all, time.Since(begin))
		plane.Stop()
		if err != nil || resp.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("first answer: %s %v", resp.Status, err)
		}
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}
