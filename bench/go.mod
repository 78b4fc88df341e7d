module kelson.dev/bench

go 1.26.0
