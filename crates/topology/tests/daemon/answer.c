/* What the tests' own images run: one static program, so that an image is one file. `serve PORT` answers every request
   with 200, `wait` does nothing, `exit CODE MILLISECONDS` prints sixty lines then and ends. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int serve(int port) {
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
    struct sockaddr_in all = {.sin_family = AF_INET, .sin_port = htons(port)};
    int yes = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&all, sizeof all) || listen(listener, 64)) {
        perror("listen");
        return 1;
    }
    for (;;) {
        char request[4096];
        size_t got = 0;
        ssize_t part;
        int client = accept(listener, NULL, NULL);
        if (client < 0) continue;
        memset(request, 0, sizeof request);
        while (got < sizeof request - 1 && (part = read(client, request + got, sizeof request - 1 - got)) > 0) {
            got += (size_t)part;
            if (strstr(request, "\r\n\r\n")) break;
        }
        if (write(client, answer, sizeof answer - 1) < 0) perror("write");
        close(client);
    }
}

int main(int count, char **words) {
    if (count > 2 && !strcmp(words[1], "serve")) return serve(atoi(words[2]));
    if (count > 3 && !strcmp(words[1], "exit")) {
        usleep((useconds_t)atoi(words[3]) * 1000);
        for (int line = 1; line <= 60; line++) printf("line %d\n", line);
        return atoi(words[2]);
    }
    for (;;) pause();
}
