// Command main is the operator progress-in-memory of the corpus.
package main

import "kelson.dev/bench/explore/corpus"

func main() { corpus.Run("progress-in-memory") }
