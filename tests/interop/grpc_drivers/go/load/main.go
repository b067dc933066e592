// The load of scripts/bench: Go's gRPC client, with calls side by side.
//
// Arguments: endpoint, topic, group, "tls" or "plain", and the number of clients, 1 without it. Each client has a
// connection of its own; all together have so many calls on the way. Each line of standard input is "send N" or
// "receive N"; its answer is a line with the number of messages and the seconds that they took.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	inFlight        = 64
	receivers       = 4
	batch           = 32
	bodyBytes       = 1024
	await           = 5 * time.Second
	invisible       = 300 * time.Second
	callTimeout     = 30 * time.Second
	emptyMax        = 3 // receives in a row that find nothing: a broker may be empty before the others
	messageNotFound = 40401
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// side runs work in so many goroutines, and returns when all are done.
func side(count int, work func()) {
	var running sync.WaitGroup
	for range count {
		running.Add(1)
		go func() {
			defer running.Done()
			work()
		}()
	}
	running.Wait()
}

func send(producers []rocketmq.Producer, topic string, count int64) int64 {
	var taken, started atomic.Int64
	side(inFlight, func() {
		producer := producers[int(started.Add(1))%len(producers)]
		for taken.Add(1) <= count {
			ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
			_, err := producer.Send(ctx, &rocketmq.Message{Topic: topic, Body: make([]byte, bodyBytes)})
			cancel()
			check(err)
		}
	})
	return count
}

// receive acknowledges each message by a call of its own, and stops at the count or when nothing comes. It returns the
// number of messages and the time of the one that makes the count: receives that wait then don't count.
func receive(consumers []rocketmq.SimpleConsumer, count int64) (int64, time.Time) {
	var acked, started atomic.Int64
	var end atomic.Pointer[time.Time]
	free := make(chan struct{}, inFlight)
	side(max(receivers, len(consumers)), func() {
		consumer := consumers[int(started.Add(1))%len(consumers)]
		empty := 0
		for acked.Load() < count && empty < emptyMax {
			ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
			found, err := consumer.Receive(ctx, batch, invisible)
			cancel()
			if status, ok := rocketmq.AsErrRpcStatus(err); ok && status.Code == messageNotFound {
				empty++
				continue
			}
			check(err)
			var acks sync.WaitGroup
			for _, one := range found {
				acks.Add(1)
				free <- struct{}{}
				go func() {
					defer acks.Done()
					ackCtx, ackCancel := context.WithTimeout(context.Background(), callTimeout)
					check(consumer.Ack(ackCtx, one))
					ackCancel()
					if acked.Add(1) == count {
						now := time.Now()
						end.Store(&now)
					}
					<-free
				}()
			}
			acks.Wait()
		}
	})
	if last := end.Load(); last != nil {
		return acked.Load(), *last
	}
	return acked.Load(), time.Now()
}

func main() {
	endpoint, topic, group := os.Args[1], os.Args[2], os.Args[3]
	rocketmq.EnableSsl = os.Args[4] == "tls"
	clients := 1
	if len(os.Args) > 5 {
		_, err := fmt.Sscan(os.Args[5], &clients)
		check(err)
	}
	config := &rocketmq.Config{Endpoint: endpoint, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{}}
	var producers []rocketmq.Producer
	for range clients {
		producer, err := rocketmq.NewProducer(config, rocketmq.WithTopics(topic))
		check(err)
		check(producer.Start())
		producers = append(producers, producer)
	}
	var consumers []rocketmq.SimpleConsumer
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var count int64
		word, number, _ := strings.Cut(lines.Text(), " ")
		_, err := fmt.Sscan(number, &count)
		check(err)
		for word == "receive" && len(consumers) < clients {
			all := map[string]*rocketmq.FilterExpression{topic: rocketmq.NewFilterExpression("*")}
			consumer, err := rocketmq.NewSimpleConsumer(
				config, rocketmq.WithSimpleAwaitDuration(await), rocketmq.WithSimpleSubscriptionExpressions(all),
			)
			check(err)
			check(consumer.Start())
			consumers = append(consumers, consumer)
		}
		begun := time.Now()
		if word == "receive" {
			done, end := receive(consumers, count)
			fmt.Println(done, end.Sub(begun).Seconds())
		} else {
			done := send(producers, topic, count)
			fmt.Println(done, time.Since(begun).Seconds())
		}
	}
}
