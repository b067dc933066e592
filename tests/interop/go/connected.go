package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var printing sync.Mutex

func say(words ...any) {
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(words...)
}

// stayConnected sends each line of its input as one user, and prints what it sent and consumed. Its arguments are
// NAMESRV TOPIC GROUP ACCESS_KEY SECRET_KEY; without keys it signs nothing.
func stayConnected(arguments []string) {
	h := &harness{namesrv: arguments[0]}
	topic, group := arguments[1], arguments[2]
	var producing []producer.Option
	var consuming []consumer.Option
	if arguments[3] != "" {
		keys := primitive.Credentials{AccessKey: arguments[3], SecretKey: arguments[4]}
		producing = append(producing, producer.WithCredentials(keys))
		consuming = append(consuming, consumer.WithCredentials(keys))
	}
	p, err := h.producer(group, append(producing, producer.WithRetry(0))...)
	if err != nil {
		say("no producer:", oneLine(err))
		return
	}
	print := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			say("consumed", string(message.Body))
		}
		return consumer.ConsumeSuccess, nil
	}
	if _, err := h.consumer(group, topic, "*", print, consuming...); err != nil {
		say("no consumer:", oneLine(err))
	}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		result, err := p.SendSync(context.Background(), primitive.NewMessage(topic, input.Bytes()))
		switch {
		case err != nil:
			say("sent", input.Text()+":", oneLine(err))
		case result.Status == primitive.SendOK:
			say("sent", input.Text()+":", "SEND_OK")
		default:
			say("sent", input.Text()+":", result.String())
		}
	}
}

func oneLine(err error) string {
	return strings.ReplaceAll(err.Error(), "\n", " ")
}
