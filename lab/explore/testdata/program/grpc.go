//go:build grpc

package main

import (
	"context"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// With the build tag grpc, the service at the address in ZONES is one of gRPC. PLAIN has the
// connection without TLS, and GZIP compresses the requests.
func init() {
	createZone = func(name string) error {
		credentials := credentials.NewTLS(nil)
		if os.Getenv("PLAIN") != "" {
			credentials = insecure.NewCredentials()
		}
		options := []grpc.DialOption{grpc.WithTransportCredentials(credentials)}
		if os.Getenv("GZIP") != "" {
			options = append(options, grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name)))
		}
		conn, err := grpc.NewClient(os.Getenv("ZONES"), options...)
		if err != nil {
			return err
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		zone, err := structpb.NewStruct(map[string]any{"name": name})
		if err != nil {
			return err
		}
		if os.Getenv("CAREFUL") != "" {
			found := &structpb.Struct{}
			switch err := conn.Invoke(ctx, "/zones.v1.Zones/GetZone", zone, found); {
			case err == nil && found.Fields["name"].GetStringValue() == name:
				return nil
			case status.Code(err) != codes.NotFound:
				return err
			}
		}
		return conn.Invoke(ctx, "/zones.v1.Zones/CreateZone", zone, &structpb.Struct{})
	}
}
